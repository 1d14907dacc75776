"""What a new process loads before it has done its work: counted, not timed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil

SHOW = "import sys; print(*sys.modules, file=sys.stderr)"
OPEN = "import frazil; repo = frazil.Repository.open(frazil.local_filesystem_storage(sys.argv[1]))"
LOG = f"import sys; {OPEN}; assert len(list(repo.ancestry(branch='main'))) == 2; {SHOW}"
READ = (
    f"import sys; {OPEN}; import zarr;"
    "store = repo.readonly_session('main').store;"
    f"assert zarr.open_array(store, path='a', mode='r').shape == (3,); {SHOW}"
)
NOT_TO_READ = (
    *("frazil.engine.merge.", "frazil.engine.history.", "frazil.engine.commit."),
    *("frazil.engine.changes.diff", "frazil.engine.changes.chunk_reads"),
    *("frazil.engine.files.virtual_chunks", "frazil.engine.refs.ops_log", "frazil.format.urls"),
    *("frazil.format.chunk_refs", "frazil.format.manifest", "frazil.format.transaction_log"),
    *("frazil.flatbuf.encode", "frazil.flatbuf.record_encoder", "frazil.objectstore.credentials"),
    *("frazil.objectstore.memory", "frazil.api.error_kinds"),
    *("frazil.objectstore.remote.", "frazil.describe", "frazil.api.actions"),
    *("frazil.maintenance.summaries", "obstore", "pydantic"),
    *("frazil.engine.refs.entry_v1", "frazil.format.config_codec", "frazil.objectstore.wrappers"),
    *("frazil.zarrstore.virtual", "frazil.zarrstore.pipeline.reading"),
    *("frazil.zarrstore.pipeline.writing", "frazil.zarrstore.pipeline.shards"),
)
NOT_TO_LOG = (
    *NOT_TO_READ,
    *("zarr", "numcodecs", "frazil.zarrstore", "asyncio", "ssl", "yaml", "http", "email"),
    *("importlib.metadata", "frazil.api.session"),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("new_process")
    session = frazil.Repository.create(frazil.local_filesystem_storage(str(path))).writable_session(
        "main"
    )
    zarr.create_array(session.store, name="a", data=np.arange(3))
    session.commit("an array")
    return path


def loaded_by(code: str, path: Path) -> set[str]:
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("code", "unwanted", "most"), [(LOG, NOT_TO_LOG, 83), (READ, NOT_TO_READ, 90)]
)
def test_a_new_process_loads_what_it_uses(
    repository: Path, code: str, unwanted: tuple[str, ...], most: int
) -> None:
    modules = loaded_by(code, repository)
    assert sorted(name for name in modules if name.startswith(unwanted)) == []
    own = [name for name in modules if name.startswith("frazil")]
    assert len(own) <= most, "more modules of frazil than before: a new import of something large?"
