"""Parts of zarr that the pipeline is made of, and that zarr has from version 3.4 on."""

from typing import Any

_missing: Any = None
try:
    from zarr.abc.codec import GetResult
    from zarr.core.chunk_utils import (
        ChunkTransform,
        decode_and_scatter_chunk,
        fill_value_or_default,
        merge_and_encode_chunk,
    )
    from zarr.core.codec_pipeline import FusedCodecPipeline, codecs_from_list_unchecked
except ImportError:
    ARE_THERE = False
    ChunkTransform = FusedCodecPipeline = _missing  # type: ignore[misc]  # nothing uses them then
    GetResult = dict  # type: ignore[assignment,misc]  # what it is
    codecs_from_list_unchecked = decode_and_scatter_chunk = _missing
    fill_value_or_default = merge_and_encode_chunk = _missing
else:
    ARE_THERE = True

__all__ = [
    "ARE_THERE",
    "ChunkTransform",
    "FusedCodecPipeline",
    "GetResult",
    "codecs_from_list_unchecked",
    "decode_and_scatter_chunk",
    "fill_value_or_default",
    "merge_and_encode_chunk",
]
