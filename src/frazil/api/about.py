"""What the package is, and the reference's switches for its logs, of which frazil has none."""

import platform
from importlib.metadata import PackageNotFoundError, version

from frazil.api.values import SpecVersion
from frazil.errors import require_type

_WORTH_KNOWING = (
    "frazil",
    "zarr",
    "numcodecs",
    "numpy",
    "xarray",
    "dask",
    "virtualizarr",
    "pyspark",
)


def spec_version() -> SpecVersion:
    """The generation of the format that new repositories get."""
    return SpecVersion.current()


def supported_spec_versions() -> list[SpecVersion]:
    """Those that can be read and written, newest first."""
    return sorted(SpecVersion, reverse=True)


def user_agent() -> str:
    """How frazil names itself to servers."""
    return f"frazil-{version('frazil')}"


def print_debug_info() -> None:
    """Versions that belong into a bug report."""
    print(f"platform:  {platform.platform()}")  # noqa: T201 -- what it is for
    print(f"python:  {platform.python_version()}")  # noqa: T201 -- same
    for package in _WORTH_KNOWING:
        try:
            print(f"{package}:  {version(package)}")  # noqa: T201 -- same
        except PackageNotFoundError:
            continue


def initialize_logs() -> None:
    """Nothing: frazil writes no logs. There so that programs for the reference run."""


def set_logs_filter(log_filter_directive: str | None) -> None:
    """Nothing, as `initialize_logs`."""
    require_type(log_filter_directive, str | None)


def shutdown_telemetry() -> None:
    """Nothing, as `initialize_logs`."""
