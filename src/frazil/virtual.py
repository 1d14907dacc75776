"""Chunks that are parts of files elsewhere, under the name they have in Icechunk."""

from frazil.format.config import VirtualChunkContainer
from frazil.zarrstore.virtual import VirtualChunkSpec

__all__ = ["VirtualChunkContainer", "VirtualChunkSpec"]
