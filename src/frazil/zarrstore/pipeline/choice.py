"""Which codec pipeline zarr uses.

Zarr takes the class of its pipeline from its configuration, for all stores alike. When a frazil
store is first opened, frazil's class takes the place of zarr's default one; what it is asked for
arrays in other stores it hands on to the one it replaced. Nothing happens if somebody has chosen a
pipeline before, or wants none of ours:

    zarr.config.set({"frazil.codec_pipeline": False})    or in the environment
    ZARR_FRAZIL__CODEC_PIPELINE=False
"""

from threading import Lock
from typing import Final

import zarr
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import get_pipeline_class, register_pipeline

from frazil.zarrstore.pipeline.replaced import replaced
from frazil.zarrstore.pipeline.session_pipeline import SessionPipeline
from frazil.zarrstore.pipeline.zarr_parts import ARE_THERE

PATH: Final = "codec_pipeline.path"
WANTED: Final = "frazil.codec_pipeline"


class _Choice:
    """Made once in a process: whoever changes zarr's configuration later has the last word."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_made = False

    def make(self) -> None:
        with self._lock:
            if not self._is_made:
                self._is_made = True
                self._choose()

    def _choose(self) -> None:
        current = get_pipeline_class()
        is_default = current is BatchedCodecPipeline
        if ARE_THERE and is_default and zarr.config.get(WANTED, True):
            replaced.pipeline = current
            register_pipeline(SessionPipeline)
            name = f"{SessionPipeline.__module__}.{SessionPipeline.__qualname__}"
            zarr.config.set({PATH: name})


_choice = _Choice()


def use_pipeline() -> None:
    """From now on frazil's pipeline serves frazil's stores, unless that is not wanted."""
    _choice.make()
