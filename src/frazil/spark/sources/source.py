"""What is ingested: a file or a Zarr store, of this machine, in a bucket or on a web server."""

from dataclasses import dataclass, field
from enum import StrEnum

from frazil.objectstore.remote import RemoteStore


class SourceKind(StrEnum):
    NETCDF = "netcdf"  # 4, and other HDF5
    NETCDF3 = "netcdf3"
    ZARR = "zarr"
    GRIB = "grib"
    TIFF = "tiff"


@dataclass(frozen=True, slots=True)
class Remote:
    """An object by its whole name, or what lies below that name as below a folder.

    A pickle holds the credentials; no text does.
    """

    store: RemoteStore  # of the whole bucket or host
    key: str


@dataclass(frozen=True, slots=True)
class Source:
    """The path is absolute, or a URL, so that it means the same on executors."""

    kind: SourceKind
    path: str
    remote: Remote | None = field(default=None, repr=False, compare=False)
    copy: str | None = field(default=None, repr=False, compare=False)  # on disk, for a while
