"""Translation of the exceptions of h5py, h5netcdf, zarr, ecCodes and xarray into ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from frazil.errors import FormatError, IcechunkError, ObjectNotFoundError, StorageError

# Raised by the libraries for damaged files: OSError and RuntimeError by HDF5 (and by
# decompressors), the others by parsers of attributes and metadata.
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
def source_errors(path: str) -> Iterator[None]:
    """Raises every failure to read the source as an IcechunkError that names its path."""
    try:
        yield
    except IcechunkError:
        raise
    except FileNotFoundError as error:
        raise ObjectNotFoundError(path) from error
    except PermissionError as error:
        raise StorageError(f"cannot read {path!r}: {error.strerror}", kind="io") from error
    except Exception as error:
        if not isinstance(error, _DAMAGE) and not _is_eccodes_error(error):
            raise
        raise FormatError(f"cannot be read as an array file: {error}", where=path) from error


def _is_eccodes_error(error: Exception) -> bool:
    """Compares the module's name: the library is an extra, and slow to load."""
    return type(error).__module__.partition(".")[0] == "gribapi"
