"""What a worker of Spark imports on its way to the data source, and what it does not."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import frazil.spark
from frazil import lazy

SCRIPT = """
import json, sys
import pyspark_icechunk
assert pyspark_icechunk.DefaultSource.name() == "icechunk"
print(json.dumps(sorted(sys.modules)))
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
}
OF_THE_DRIVER = {
    "frazil.spark.io.sql",
    "frazil.spark.io.read",
    "frazil.spark.ingestion.ingest",
}


def test_a_worker_imports_little() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120
    )
    loaded = set(json.loads(done.stdout))
    assert "frazil.spark.io.data_source" in loaded
    assert sorted(loaded & (HEAVY | OF_THE_DRIVER)) == []


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
