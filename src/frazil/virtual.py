"""Chunks that are parts of files elsewhere, under the name they have in Icechunk."""

from frazil.api import VirtualChunkContainer, VirtualChunkSpec

__all__ = ["VirtualChunkContainer", "VirtualChunkSpec"]
