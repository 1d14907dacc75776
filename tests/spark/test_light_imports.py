"""What a worker of Spark imports on its way to the data source, and what it does not."""

import ast
import json
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import zarr
from pyspark.sql.types import StructType

import frazil
import frazil.spark
import pyspark_icechunk
from frazil import lazy
from frazil.spark.io.data_source import IcechunkSource

FINDING = """
import json, sys
import pyspark_icechunk
assert pyspark_icechunk.DefaultSource.name() == "icechunk"
print(json.dumps(sorted(sys.modules)))
"""
# a reader arrives pickled, and reads: what a task imports
READING = """
import json, pickle, sys
import pyspark.worker
reader, partition = pickle.loads(bytes.fromhex(sys.argv[1]))
rows = sum(batch.num_rows for batch in reader.read(partition))
print(json.dumps([rows, *sorted(sys.modules)]))
"""
HEAVY = {
    "xarray",
    "h5py",
    "h5netcdf",
    "cftime",
    "eccodes",
    "tifffile",
    "rich",
    "obstore",
    "pandas",
    "dask",
    "netCDF4",
    "pyarrow.parquet",
}
OF_THE_DRIVER = {
    "frazil.api",  # all public names
    "frazil.spark.io.change_reader",
    "frazil.spark.io.stream_rows",
    "frazil.spark.native.catalog",
    "frazil.spark.writing.sink",
    "frazil.spark.writing.commit",
    "frazil.spark.io.sql",
    "frazil.spark.io.read",
    "frazil.spark.ingestion.ingest",
}


def test_finding_the_source_imports_nothing_that_reading_needs() -> None:
    loaded = set(json.loads(_run(FINDING)))
    assert sorted(name for name in loaded if name.startswith(("frazil.spark", "zarr"))) == []
    assert sorted(loaded & HEAVY) == []


def test_the_source_that_is_found_reads(tmp_path: Path) -> None:
    path = cube_path(tmp_path)
    found = pyspark_icechunk.DefaultSource({"path": path})
    assert isinstance(found, IcechunkSource)
    assert found.schema() == IcechunkSource({"path": path}).schema()


def test_a_task_imports_little(tmp_path: Path) -> None:
    source = IcechunkSource({"path": cube_path(tmp_path)})
    schema = source.schema()
    assert isinstance(schema, StructType)
    reader = source.reader(schema)
    sent = pickle.dumps((reader, reader.partitions()[0]))
    rows, *loaded = json.loads(_run(READING, sent.hex()))
    assert rows == 2 * 3 * 4
    assert "frazil.spark.io.data_source" in loaded
    assert sorted(set(loaded) & (HEAVY | OF_THE_DRIVER)) == []


def cube_path(folder: Path) -> str:
    """A repository with an array of floats, one of which is NaN, and its coordinates."""
    path = str(folder / "repository")
    repository = frazil.Repository.create(frazil.local_filesystem_storage(path))
    session = repository.writable_session("main")
    root = zarr.group(store=session.store)
    values = np.arange(24, dtype="f4").reshape(2, 3, 4)
    values[0, 0, 0] = np.nan
    sizes = dict(zip(("time", "lat", "lon"), values.shape, strict=True))
    for name, size in sizes.items():
        array = root.create_array(name, data=np.arange(size, dtype="f8"), dimension_names=[name])
        if name == "time":
            array.attrs["units"] = "days since 2020-01-01"
    root.create_array("t", data=values, chunks=(1, 3, 4), dimension_names=list(sizes))
    session.commit("cube")
    return path


def _run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return done.stdout


def test_lazy_names_are_the_public_ones() -> None:
    tree = ast.parse(Path(frazil.spark.__file__).read_text())
    shown = {
        alias.name: node.module
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = lazy.names_of("frazil.spark").modules
    assert shown == names
    assert sorted(names) == import_module("frazil.spark").__all__
    for name, module in names.items():
        found = getattr(frazil.spark, name)
        assert getattr(sys.modules[module], name) is found


def test_a_module_does_not_hide_the_function_of_its_name() -> None:
    script = "import frazil.spark.io.read\nfrom frazil.spark import read\nassert callable(read)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
