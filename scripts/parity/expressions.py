"""Names that the expressions of the tours use, and how an expression is evaluated."""

import inspect
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import numpy as np
import zarr
from zarr.core.sync import sync

from scripts.parity import place as places
from scripts.parity.place import GROUP, RECTILINEAR, Place, Template, buffer, collect, get, put

PAST = datetime(2001, 1, 1, tzinfo=UTC)
CONSTANTS = {
    "GROUP": GROUP,
    "RECTILINEAR": RECTILINEAR,
    "INITIAL": places.INITIAL,
    "UNKNOWN": places.UNKNOWN,
    "PAST": PAST,
    "LOCATION": "s3://b/k",
    "UNCHECKED": {"validate_container": False},
    "KEYS": {"access_key_id": "a", "secret_access_key": "s"},
    "NAIVE": PAST.replace(tzinfo=None),
    "NOW": datetime(2026, 1, 1, tzinfo=UTC),
    "buffer": buffer,
    "collect": collect,
    "get": get,
    "put": put,
    "sync": sync,
    "pickle": pickle,
    "zarr": zarr,
    "np": np,
}


class Names(dict[str, Any]):
    """Constants, attributes of the place, and what is made of it, by name and when needed."""

    def __init__(self, place: Place, template: Template) -> None:
        super().__init__(CONSTANTS)
        self._place, self._made = place, Made(place, template)

    def __missing__(self, name: str) -> Any:
        for owner in (self._made, self._place):
            with suppress(AttributeError):
                inspect.getattr_static(owner, name)
                return getattr(owner, name)
        if name in vars(self._place):
            return vars(self._place)[name]
        raise KeyError(name)


class Made:
    """Outcomes of expressions at a place."""

    def __init__(self, place: Place, template: Template) -> None:
        self._place, self._template = place, template

    def at(self, version: int) -> Place:
        name = f"v{version}"
        shutil.copytree(self._template.folder / name, self._place.folder / name)
        ids = self._template.ids[version]
        return Place(self._place.m, self._place.folder, ids, version)

    def fork(self, session: Any) -> Any:
        return pickle.loads(pickle.dumps(session.fork()))  # noqa: S301 -- as it would travel

    def overtaken(self, branch: str = "main", *, delete: bool = False) -> Any:
        """A session that another commit came before."""
        late, early = (self._place.repo.writable_session(branch) for _ in range(2))
        for session in (late, early):
            zarr.open_array(session.store, path="a", mode="r+")[0] = 5
        if delete:
            self._place.repo.delete_branch(branch)
        else:
            early.commit("early")
        return late

    def conflict(self) -> Any:
        found = self.failure(self.overtaken().rebase, self._place.m.ConflictDetector())
        return found.conflicts[0]

    def failure(self, call: Callable[..., object], *args: object) -> Any:
        """The error that a call raises."""
        try:
            call(*args)
        except self._place.m.IcechunkError as error:
            return error
        raise AssertionError("the call is not wrong")

    def other_repo(self) -> Any:
        return self._place.m.Repository.create(self._place.memory)

    def first_of_v1_amend(self) -> Any:
        session = self.other_repo().writable_session("main")
        put(session.store, "zarr.json", GROUP)
        return session.amend("the first commit of all")

    def within(self, transaction: Any, path: str | None = None) -> None:
        with transaction as store:
            if path is not None:
                put(store, f"{path}/zarr.json", GROUP)

    def rectilinear(self) -> Any:
        session = self._place.session
        put(session.store, "r/zarr.json", RECTILINEAR)
        return session

    def spec(self, index: list[int]) -> Any:
        return self._place.m.VirtualChunkSpec(index, "s3://b/k", 0, 1)

    def beside_other_files(self) -> Any:
        folder = self._place.new_folder("occupied")
        (folder / "notes.txt").write_text("mine")
        return self._place.m.local_filesystem_storage(str(folder))

    def read_only_repo(self) -> Any:
        m, repo = self._place.m, self._place.repo
        repo.set_status(m.RepoStatus(m.RepoAvailability.read_only, None, "closed"))
        return repo

    def without_tags(self) -> Any:
        repo = self._place.repo
        repo.set_feature_flag("create_tag", setting=False)
        return repo

    def without_snapshot(self) -> Any:
        (self._place.folder / "v2" / "snapshots" / self._place.ids[-1]).unlink()
        return self._place.repo

    def damaged(self, kind: str) -> Place:
        """Files of a kind cut in the middle."""
        folder = self._place.folder / "v2"
        files = [folder / kind] if kind == "repo" else list((folder / kind).iterdir())
        for file in files:
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        return self._place


def evaluate(expression: str, place: Place, template: Template) -> Callable[[], object]:
    names = Names(place, template)
    return lambda: eval(expression, names)  # noqa: S307 -- written in these modules
