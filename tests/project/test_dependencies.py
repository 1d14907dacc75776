"""What the package imports, pyproject.toml declares: otherwise only our own .venv has it."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Parts that are only of use with an extra; all else must work with the plain dependencies.
EXTRAS = {
    "dask.py": ("dask",),
    "maintenance": ("references",),  # listings in Parquet
    "references": ("references",),
    "spark": ("spark", "ingest", "grib"),
    "testing": ("test",),
    "web": ("web", "ingest"),  # NetCDF to download
    "xarray.py": ("xarray",),
    "zarrstore": ("grib",),
}

# Library -> the declared one that always brings it, in the version it needs.
BROUGHT_ALONG = {"google_crc32c": "zarr", "numcodecs": "zarr", "py4j": "pyspark"}


def names(requirements: list[str]) -> set[str]:
    found = (re.match(r"[\w.-]+", requirement) for requirement in requirements)
    return {normal(match[0]) for match in found if match}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_libraries() -> set[tuple[str, str]]:
    """Layer of the package, and the top-level module it imports."""
    src = ROOT / "src" / "frazil"
    return {
        (path.relative_to(src).parts[0], name.split(".")[0])
        for path in src.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in module_names(node)
        if name.split(".")[0] not in sys.stdlib_module_names | {"frazil"}
    }


def module_names(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case _:
            return []


def test_every_library_that_is_imported_is_declared() -> None:
    distributions = packages_distributions()
    extras = PROJECT["optional-dependencies"]
    missing = set[str]()
    for layer, module in imported_libraries():
        declared = names(PROJECT["dependencies"])
        for extra in EXTRAS.get(layer, ()):
            declared |= names(extras[extra])
        library = BROUGHT_ALONG.get(module, module)
        if not declared & {normal(each) for each in distributions.get(library, [library])}:
            missing.add(f"{layer} imports {module}")
    assert sorted(missing) == []


def test_what_is_brought_along_really_is() -> None:
    for library, carrier in BROUGHT_ALONG.items():
        plain = [each for each in requires(carrier) or [] if "extra ==" not in each]
        assert normal(library) in names(plain)


def test_everything_declared_is_pinned() -> None:
    pinned = {
        normal(line.partition("==")[0]) for line in (ROOT / "constraints.txt").read_text().split()
    }
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    declared = set[str]().union(*map(names, lists)) - {"frazil"}
    assert sorted(declared - pinned) == []
