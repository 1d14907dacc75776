"""Which codec pipeline zarr uses.

Zarr takes the class of its pipeline from its configuration, for all stores alike. When a frazil
store is first opened, frazil's class takes the place of zarr's default one; what it is asked for
arrays in other stores it hands on to the one it replaced. Nothing happens if somebody has chosen a
pipeline before, or wants none of ours:

    zarr.config.set({"frazil.codec_pipeline": False})    or in the environment
    ZARR_FRAZIL__CODEC_PIPELINE=False
"""

from threading import Lock
from typing import Any

import zarr
from zarr.abc.codec import CodecPipeline
from zarr.core import codec_pipeline
from zarr.registry import get_pipeline_class, register_pipeline

PATH = "codec_pipeline.path"
WANTED = "frazil.codec_pipeline"

_pipelines: Any = codec_pipeline  # what is in it depends on zarr's version


class _Choice:
    """Made once in a process: whoever changes zarr's configuration later has the last word."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.is_made = False
        self.replaced: type[CodecPipeline] = codec_pipeline.BatchedCodecPipeline


_choice = _Choice()


def use_pipeline() -> None:
    """From now on frazil's pipeline serves frazil's stores, unless that is not wanted."""
    if not _choice.is_made:
        with _choice.lock:
            _choose()


def _choose() -> None:
    if _choice.is_made:  # by another thread
        return
    _choice.is_made = True
    if _is_possible() and zarr.config.get(WANTED, True):
        # Not before it is wanted: it imports parts that older versions of zarr do not have.
        from frazil.zarrstore.pipeline.session_pipeline import SessionPipeline  # noqa: PLC0415

        _choice.replaced = get_pipeline_class()
        register_pipeline(SessionPipeline)
        name = f"{SessionPipeline.__module__}.{SessionPipeline.__qualname__}"
        zarr.config.set({PATH: name})


def replaced_pipeline() -> type[CodecPipeline]:
    """The class that was configured before, for stores that are not frazil's."""
    return _choice.replaced


def _is_possible() -> bool:
    """Whether nobody chose a pipeline, and zarr is young enough (3.4) to run codecs on threads."""
    return get_pipeline_class() is codec_pipeline.BatchedCodecPipeline and hasattr(
        _pipelines, "FusedCodecPipeline"
    )
