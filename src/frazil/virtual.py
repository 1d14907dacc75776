"""Chunks that are parts of files elsewhere, under the name they have in Icechunk.

CodedLocations, ContainerAccess, VirtualChunkAccess, VirtualChunkTable and VirtualReads are
frazil's own.
"""

from frazil.api import VirtualChunkContainer, VirtualChunkSpec
from frazil.api.access import ContainerAccess
from frazil.assets.virtual.access import VirtualChunkAccess, VirtualReads
from frazil.zarrstore.location_columns import CodedLocations
from frazil.zarrstore.virtual_listing import VirtualChunkTable

__all__ = [
    "CodedLocations",
    "ContainerAccess",
    "VirtualChunkAccess",
    "VirtualChunkContainer",
    "VirtualChunkSpec",
    "VirtualChunkTable",
    "VirtualReads",
]
