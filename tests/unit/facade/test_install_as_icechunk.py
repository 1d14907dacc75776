"""`import icechunk` gives frazil: in processes in which the real package cannot be imported."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.environments import make_environment

# As in an environment without the package: finders that come before this one may still have it.
WITHOUT_ICECHUNK = """
import sys
from importlib.abc import MetaPathFinder

class NotInstalled(MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] == "icechunk":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

sys.meta_path.insert(0, NotInstalled())
"""


def run(
    program: str,
    folder: Path,
    *,
    before: str = WITHOUT_ICECHUNK,
    python: str | Path = sys.executable,
) -> None:
    done = subprocess.run(
        [python, "-W", "error", "-c", before + dedent(program)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_without_it_there_is_no_icechunk(tmp_path: Path) -> None:
    run(
        """
        import frazil
        try:
            import icechunk
        except ModuleNotFoundError:
            sys.exit()
        sys.exit("the test would show nothing")
        """,
        tmp_path,
    )


def test_a_program_that_imports_icechunk_gets_frazil(tmp_path: Path) -> None:
    run(
        """
        import frazil
        frazil.install_as_icechunk()
        import icechunk
        from icechunk import IcechunkStore, local_filesystem_storage
        from icechunk.repository import Repository
        import icechunk.session

        assert icechunk.Repository is Repository is frazil.Repository
        assert icechunk.session is frazil.session is sys.modules["icechunk.session"]
        assert frazil.session.__spec__.name == "frazil.session"
        assert icechunk.storage.Storage is frazil.Storage
        assert icechunk.__version__ == "2.3.0" != frazil.__version__
        assert {"Repository", "__version__"} <= set(dir(icechunk))
        assert "frazil" in repr(icechunk)

        import zarr
        repo = Repository.create(local_filesystem_storage("repo"))
        session = repo.writable_session("main")
        assert isinstance(session.store, IcechunkStore)
        zarr.create_array(session.store, name="a", shape=3, dtype="i4")[:] = 7
        session.commit("seven")
        assert zarr.open_array(repo.readonly_session("main").store, path="a")[2] == 7
        """,
        tmp_path,
    )


def test_xarray_reads_and_writes_through_it(tmp_path: Path) -> None:
    run(
        """
        import frazil
        frazil.install_as_icechunk()
        import icechunk
        import numpy as np
        import xarray as xr

        repo = icechunk.Repository.create(icechunk.in_memory_storage())
        written = xr.Dataset({"t": (("time", "x"), np.arange(12.0).reshape(4, 3))})
        with repo.transaction("main", message="all") as store:
            written.to_zarr(store, consolidated=False)
        session = repo.readonly_session("main")
        for read in (
            xr.open_zarr(session.store, consolidated=False),
            xr.open_dataset(session.store, engine="zarr", consolidated=False),
            xr.open_zarr(session.store, consolidated=False, chunks={}),
        ):
            xr.testing.assert_identical(read.load(), written)
        """,
        tmp_path,
    )


def test_every_exported_name_can_be_imported_with_a_star(tmp_path: Path) -> None:
    run(
        """
        import frazil
        frazil.install_as_icechunk()
        from icechunk import *
        assert [name for name in frazil.__all__ if name not in globals()] == []
        """,
        tmp_path,
    )


@pytest.mark.parametrize("name", ["repo", "testing", "errors", "nonsense", "_icechunk_python"])
def test_a_module_that_frazil_does_not_offer_is_not_found(tmp_path: Path, name: str) -> None:
    run(
        f"""
        import frazil
        frazil.install_as_icechunk()
        import icechunk
        try:
            import icechunk.{name}
        except ModuleNotFoundError as error:
            assert "icechunk.{name}" in str(error) and "frazil" in str(error), error
            assert error.name == "icechunk.{name}"
        else:
            sys.exit("found")
        assert not hasattr(icechunk, "{name}")
        """,
        tmp_path,
    )


def test_it_may_be_installed_again(tmp_path: Path) -> None:
    run(
        """
        import frazil
        frazil.install_as_icechunk()
        import icechunk
        before = list(sys.meta_path)
        frazil.install_as_icechunk()
        assert sys.meta_path == before
        """,
        tmp_path,
    )


def test_it_is_refused_once_another_icechunk_was_imported(tmp_path: Path) -> None:
    (tmp_path / "icechunk.py").write_text("")
    run(
        """
        import icechunk
        import frazil
        try:
            frazil.install_as_icechunk()
        except RuntimeError as error:
            assert "icechunk.py" in str(error) and "before" in str(error), error
        else:
            sys.exit("not refused")
        assert sys.modules["icechunk"] is icechunk
        """,
        tmp_path,
        before="import sys",
    )


def test_it_goes_before_a_package_that_is_installed(tmp_path: Path) -> None:
    (tmp_path / "icechunk.py").write_text("")
    run(
        """
        import frazil
        frazil.install_as_icechunk()
        import icechunk
        assert icechunk.Repository is frazil.Repository
        """,
        tmp_path,
        before="import sys",
    )


def test_installing_it_loads_neither_zarr_nor_the_engine(tmp_path: Path) -> None:
    run(
        """
        import frazil
        frazil.install_as_icechunk()
        import icechunk
        assert not {"zarr", "numpy", "frazil.api"} & set(sys.modules)
        """,
        tmp_path,
    )


def test_a_session_pickled_under_that_name_is_read_without_it(tmp_path: Path) -> None:
    run(
        """
        import pickle
        import frazil
        frazil.install_as_icechunk()
        import icechunk
        repo = icechunk.Repository.create(icechunk.local_filesystem_storage("repo"))
        with open("session", "wb") as file:
            pickle.dump(repo.readonly_session("main"), file)
        """,
        tmp_path,
    )
    run("import pickle; pickle.load(open('session', 'rb')).store", tmp_path, before="")


def test_xarray_and_dask_work_where_the_package_is_not_installed(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "environment", without={"icechunk"})
    run(
        """
        import sys
        from importlib.metadata import PackageNotFoundError, version
        try:
            sys.exit(f"icechunk {version('icechunk')} is here")
        except PackageNotFoundError:
            pass

        import frazil
        frazil.install_as_icechunk()
        import icechunk
        import dask.array
        import numpy as np
        import xarray as xr
        from icechunk.distributed import merge_sessions
        from icechunk.xarray import to_icechunk

        repo = icechunk.Repository.create(icechunk.local_filesystem_storage("repo"))
        values = dask.array.arange(12.0, chunks=3).reshape((4, 3))
        written = xr.Dataset({"t": (("time", "x"), values)})
        session = repo.writable_session("main")
        to_icechunk(written, session)
        session.commit("parallel")
        store = repo.readonly_session("main").store
        xr.testing.assert_identical(xr.open_zarr(store, consolidated=False).load(), written.load())
        """,
        tmp_path,
        before="",
        python=python,
    )
