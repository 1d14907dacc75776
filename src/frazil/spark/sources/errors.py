"""The one door through which errors of h5py, h5netcdf, zarr and xarray become ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from frazil.errors import FormatError, IcechunkError, ObjectNotFoundError, StorageError

# What the libraries raise where damaged bytes lead them: OSError and RuntimeError from HDF5 (and
# from decompressors), the rest from parsers of attributes and metadata.
_DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    RuntimeError,
    AttributeError,
    ArithmeticError,
    EOFError,
)


@contextmanager
def source_errors_as_ours(path: str) -> Iterator[None]:
    """Every failure to read the source names it."""
    try:
        yield
    except IcechunkError:
        raise
    except FileNotFoundError as error:
        raise ObjectNotFoundError(path) from error
    except PermissionError as error:
        raise StorageError(f"cannot read {path!r}: {error.strerror}", kind="io") from error
    except Exception as error:
        if not isinstance(error, _DAMAGE) and not _is_of_eccodes(error):
            raise
        raise FormatError(f"cannot be read as an array file: {error}", where=path) from error


def _is_of_eccodes(error: Exception) -> bool:
    """By name: the library is an extra, and slow to load."""
    return type(error).__module__.partition(".")[0] == "gribapi"
