import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from frazil.engine.repository import Repository
from frazil.ids import SnapshotId
from frazil.objectstore.local import LocalStore
from frazil.paths import NodePath
from tests.unit.spec.written import GROUP, array_metadata


@dataclass(frozen=True, slots=True)
class Example:
    """Three snapshots on main, a tag at the second, a branch at the first."""

    path: Path
    snapshots: tuple[SnapshotId, ...]  # oldest first, the initial one included

    def ids(self) -> list[str]:
        return [str(snapshot) for snapshot in self.snapshots]


def make_example(path: Path) -> Example:
    repository = Repository.create(LocalStore(str(path)))
    ids = [repository.lookup_branch("main")]
    session = repository.writable_session("main")
    session.set_node(NodePath("/"), GROUP)
    session.set_node(NodePath("/model"), GROUP)
    session.set_node(
        NodePath("/model/t2m"), array_metadata((48, 4), (24, 4), dimension_names=["time", "x"])
    )
    session.set_chunk(NodePath("/model/t2m"), (0, 0), bytes(192))
    ids.append(session.commit("first [day]", {"source": "test"}))
    repository.create_tag("v1", ids[1])
    session = repository.writable_session("main")
    session.set_chunk(NodePath("/model/t2m"), (1, 0), bytes(192))
    session.set_node(NodePath("/notes"), array_metadata((), ()))
    ids.append(session.commit("second day"))
    repository.create_branch("old", ids[1])
    return Example(path, tuple(ids))


@pytest.fixture(autouse=True)
def no_names(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that the user of this machine gave to repositories do not matter."""
    nowhere = tmp_path_factory.getbasetemp() / "no-repositories.json"
    monkeypatch.setenv("FRAZIL_REPOSITORIES", str(nowhere))


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    """Not to be changed."""
    return make_example(tmp_path_factory.mktemp("example") / "repo")


@pytest.fixture
def own_example(example: Example, tmp_path: Path) -> Example:
    """A copy that a test may change."""
    shutil.copytree(example.path, tmp_path / "repo")
    return Example(tmp_path / "repo", example.snapshots)


@pytest.fixture(scope="session")
def foreign_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("foreign") / "notes.json"
    path.write_text(json.dumps({"not": "a file of a repository", "padding": "x" * 100}))
    return path
