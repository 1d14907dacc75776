"""Sets of references that others made, into a session: kerchunk's, and VirtualiZarr's datasets."""

from frazil.references.kerchunk import KerchunkImport, import_kerchunk
from frazil.references.virtualizarr import write_virtual_dataset

__all__ = ["KerchunkImport", "import_kerchunk", "write_virtual_dataset"]
