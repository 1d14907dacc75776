"""The table of source formats, and how the format of a file is recognised.

To add a format, write one module that makes a `SourceFormat` and add it to BUILT_IN; code outside
of this package calls `register_source_format` instead.
"""

from pathlib import PurePosixPath

from frazil.errors import InvalidInputError
from frazil.spark.sources.grib_files import GRIB
from frazil.spark.sources.hdf5_files import NETCDF
from frazil.spark.sources.netcdf3 import NETCDF3
from frazil.spark.sources.source_types import SourceFormat
from frazil.spark.sources.tiff_files import TIFF
from frazil.spark.sources.zarr_files import ZARR

BUILT_IN = (
    NETCDF,  # also what is tried for files that no other format recognises
    NETCDF3,
    ZARR,
    GRIB,
    TIFF,
)
MAGIC_BYTES = 4  # read from the start of each file

_formats: dict[str, SourceFormat] = {
    source_format.name: source_format for source_format in BUILT_IN
}


def register_source_format(source_format: SourceFormat) -> None:
    """Makes ingest on this driver recognise a format; a second one of that name replaces it.

    Raises InvalidInputError for names and magics that another format has.
    """
    others = [other for other in _formats.values() if other != source_format]
    for other in others:
        shared = {*_names(other)} & {*_names(source_format)}
        shared |= {repr(magic) for magic in {*other.magics} & {*source_format.magics}}
        if shared:
            raise InvalidInputError(
                f"format {source_format.name!r} shares {min(shared)} with format {other.name!r}"
            )
    if any(not 0 < len(magic) <= MAGIC_BYTES for magic in source_format.magics):
        raise InvalidInputError(f"magics of a format have 1 to {MAGIC_BYTES} bytes")
    _formats[source_format.name] = source_format


def unregister_source_format(source_format: SourceFormat) -> None:
    """Undoes a registration; without effect if there is none."""
    if source_format not in BUILT_IN:
        _formats.pop(source_format.name, None)


def parse_format(text: str | None) -> SourceFormat | None:
    """Format of that name or alias; None means that each file is recognised by itself."""
    if text is None:
        return None
    by_name = {name: known for known in _formats.values() for name in _names(known)}
    source_format = by_name.get(text.casefold())
    if source_format is None:
        raise InvalidInputError(f"format is {text!r}, expected one of {', '.join(sorted(by_name))}")
    return source_format


def recognise_format(name: str, first_bytes: bytes) -> SourceFormat:
    """Format by the first four bytes of a file (or fewer, if it has fewer), else by its suffix."""
    for source_format in _formats.values():
        if source_format.magics and first_bytes.startswith(source_format.magics):
            return source_format
    suffix = PurePosixPath(name).suffix.lower()
    by_suffix = (known for known in _formats.values() if suffix in known.suffixes)
    return next(by_suffix, NETCDF)


def known_suffixes() -> frozenset[str]:
    return frozenset(suffix for known in _formats.values() for suffix in known.suffixes)


def _names(source_format: SourceFormat) -> tuple[str, ...]:
    return (source_format.name, *source_format.aliases)
