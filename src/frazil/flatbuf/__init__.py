"""FlatBuffers and FlexBuffers as numpy columns. Knows nothing of Icechunk."""

from frazil.flatbuf.columns import (
    ScalarColumn,
    StringColumn,
    StringVectorColumn,
    StructColumn,
    VectorColumn,
)
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer
from frazil.flatbuf.schema import (
    Bytes,
    Field,
    Kind,
    Scalar,
    ScalarVector,
    String,
    StringVector,
    Struct,
    StructVector,
    SubTable,
    TableSchema,
    TableVector,
    Union,
)
from frazil.flatbuf.strings import Strings
from frazil.flatbuf.table import Column, SubTableColumn, Table, TableVectorColumn, UnionColumn

__all__ = [
    "Bytes",
    "Column",
    "Field",
    "Json",
    "Kind",
    "Scalar",
    "ScalarColumn",
    "ScalarVector",
    "String",
    "StringColumn",
    "StringVector",
    "StringVectorColumn",
    "Strings",
    "Struct",
    "StructColumn",
    "StructVector",
    "SubTable",
    "SubTableColumn",
    "Table",
    "TableSchema",
    "TableVector",
    "TableVectorColumn",
    "Union",
    "UnionColumn",
    "VectorColumn",
    "decode",
    "decode_flexbuffer",
    "encode",
    "encode_flexbuffer",
]
