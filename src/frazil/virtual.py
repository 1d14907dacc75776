"""Chunks that are parts of files elsewhere, under the name they have in Icechunk.

All but VirtualChunkContainer and VirtualChunkSpec are frazil's own.
"""

from frazil.api import VirtualChunkContainer, VirtualChunkSpec
from frazil.api.access import ContainerAccess
from frazil.assets.virtual.access import VirtualChunkAccess, VirtualReads
from frazil.references import KerchunkImport, import_kerchunk, write_virtual_dataset
from frazil.zarrstore.virtual import CodedLocations
from frazil.zarrstore.virtual_listing import VirtualChunkTable

__all__ = [
    "CodedLocations",
    "ContainerAccess",
    "KerchunkImport",
    "VirtualChunkAccess",
    "VirtualChunkContainer",
    "VirtualChunkSpec",
    "VirtualChunkTable",
    "VirtualReads",
    "import_kerchunk",
    "write_virtual_dataset",
]
