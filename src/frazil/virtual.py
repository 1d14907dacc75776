"""Virtual chunks: parts of files outside of the repository, under the name they have in Icechunk.

All but VirtualChunkContainer and VirtualChunkSpec are frazil's own.
"""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.virtual_access import ContainerAccess as ContainerAccess
from frazil.engine.files.virtual_access import VirtualChunkAccess as VirtualChunkAccess
from frazil.engine.files.virtual_access import VirtualReads as VirtualReads
from frazil.format.storage_config import VirtualChunkContainer as VirtualChunkContainer
from frazil.lazy import export_all
from frazil.references import (
    KerchunkImport as KerchunkImport,
    import_kerchunk as import_kerchunk,
    write_virtual_dataset as write_virtual_dataset,
)
from frazil.zarrstore.virtual import (
    CodedLocations as CodedLocations,
    VirtualChunkSpec as VirtualChunkSpec,
)
from frazil.zarrstore.virtual_listing import VirtualChunkTable as VirtualChunkTable

export_all(globals())
