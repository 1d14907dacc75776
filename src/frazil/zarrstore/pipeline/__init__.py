"""The codec pipeline: zarr reads and writes whole selections of frazil's stores at a time."""

from frazil.zarrstore.pipeline.session_pipeline import use_pipeline

__all__ = ["use_pipeline"]
