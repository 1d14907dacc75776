"""How zarr reads and writes the chunks of frazil's stores: whole selections at a time."""

from frazil.zarrstore.pipeline.session_pipeline import use_pipeline

__all__ = ["use_pipeline"]
