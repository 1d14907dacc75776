"""zarr's faster codec pipeline, for the arrays that frazil opens for itself.

zarr 3.4 brings a pipeline that decodes chunks on threads instead of one coroutine each: a region of
many small chunks is read in less than half the time. It is chosen by zarr's global configuration,
which is the user's to change, not ours. So it is put into the one array that was opened for one
region, and only if zarr's default is in use there.
"""

import dataclasses
from typing import Any

import zarr
from zarr.core import codec_pipeline

_pipelines: Any = codec_pipeline  # what is in it depends on zarr's version


def use_fused_pipeline(array: "zarr.Array[Any]") -> None:
    """Changes how `array` reads and writes from now on, if this zarr and its codecs allow it."""
    if not hasattr(_pipelines, "FusedCodecPipeline"):  # before zarr 3.4
        return
    usual = array.async_array.codec_pipeline
    if type(usual) is not codec_pipeline.BatchedCodecPipeline:
        return
    codecs = tuple(usual)
    try:
        transform = _pipelines.ChunkTransform(codecs=codecs)
    except TypeError:  # a codec that only works asynchronously
        return
    fused = _pipelines.FusedCodecPipeline.from_codecs(codecs)
    fused = dataclasses.replace(fused, sync_transform=transform)
    object.__setattr__(array.async_array, "codec_pipeline", fused)  # frozen, but ours alone
