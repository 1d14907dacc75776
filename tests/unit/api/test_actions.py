"""Maintenance is loaded when it is first asked for."""

import subprocess
import sys


def test_reading_and_writing_load_no_maintenance() -> None:
    program = """
import sys
import frazil, zarr
repo = frazil.Repository.create(frazil.in_memory_storage())
session = repo.writable_session("main")
zarr.create_array(session.store, name="a", data=__import__("numpy").arange(3))
session.commit("a")
loaded = {name for name in sys.modules if name.startswith("frazil.maintenance.")}
assert loaded == {"frazil.maintenance.executor"}, loaded
assert "frazil.api.actions" not in sys.modules
assert repo.stats().references == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True)
