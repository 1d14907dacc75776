"""Regions of whole chunks, encoded and stored, wherever a job runs."""

from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_refs import ChunkRefs
from frazil.repo.writer import ChunkWriter
from frazil.zarrstore.encoding import encode_region


def store_region(
    document: bytes, writer: ChunkWriter, where: tuple[slice, ...], values: npt.NDArray[Any]
) -> ChunkRefs:
    """Encodes and stores a region that covers whole chunks; says where its chunks are."""
    chunks = encode_region(document, where, values)
    index = np.array(list(chunks), dtype=np.uint32).reshape(len(chunks), len(where))
    return writer.put_chunks(index, list(chunks.values()))
