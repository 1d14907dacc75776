"""Facts about the package, and the reference's functions for logs, which frazil does not write."""

import platform
from importlib.metadata import PackageNotFoundError, version

from frazil.api.values import SpecVersion
from frazil.errors import require_type

_SHOWN_PACKAGES = (
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
    """Returns the version of the format that new repositories get."""
    return SpecVersion.current()


def supported_spec_versions() -> list[SpecVersion]:
    """Lists the versions that can be read and written, newest first."""
    return sorted(SpecVersion, reverse=True)


def user_agent() -> str:
    """Returns the name and version of this package."""
    return f"frazil-{version('frazil')}"


def print_debug_info() -> None:
    """Prints the versions that belong into a bug report."""
    print(f"platform:  {platform.platform()}")  # noqa: T201 -- what it is for
    print(f"python:  {platform.python_version()}")  # noqa: T201 -- same
    for package in _SHOWN_PACKAGES:
        try:
            print(f"{package}:  {version(package)}")  # noqa: T201 -- same
        except PackageNotFoundError:
            continue


def initialize_logs() -> None:
    """Does nothing: frazil writes no logs. Programs for the reference call it."""


def set_logs_filter(log_filter_directive: str | None) -> None:
    """Does nothing, like `initialize_logs`."""
    require_type(log_filter_directive, str | None)


def shutdown_telemetry() -> None:
    """Does nothing, like `initialize_logs`."""
