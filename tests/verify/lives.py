"""Small repositories that have been through a lot, made by either implementation.

A life is drawn from a seed: commits of all sorts, branches, tags, moves, amended and detached
commits, virtual references, forks, rebases, expiration and garbage collection. What the format's
version does not offer is left out.
"""

import contextlib
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import zarr

CONTAINER = "s3://bucket/data/"
NAMES = ("a", "a-b", "b", "é", "z z")


@dataclass(slots=True)
class Life:
    module: ModuleType  # icechunk or frazil
    storage: Any
    spec_version: int
    draw: random.Random
    arrays: dict[str, tuple[int, ...]] = field(default_factory=dict)  # on main
    tags: int = 0
    pages: bool = True  # whether the ops log is long enough for several

    @classmethod
    def begun(cls, module: ModuleType, storage: Any, spec_version: int, seed: int) -> "Life":
        life = cls(module, storage, spec_version, random.Random(seed))
        config = module.RepositoryConfig(
            inline_chunk_threshold_bytes=life.draw.choice([0, 16, 512]),
            num_updates_per_repo_info_file=life.draw.choice([1, 3, 1000]),
        )
        life.pages = config.num_updates_per_repo_info_file < 1000
        config.set_virtual_chunk_container(
            module.VirtualChunkContainer(CONTAINER, module.s3_store(region="us-east-1"))
        )
        if life.draw.random() < 0.5:
            config.manifest = life._splitting()
        module.Repository.create(storage, config=config, spec_version=spec_version)
        return life

    def lived(self, steps: int) -> "Life":
        everything = [
            *[self.commit] * 6,
            *[self.write_again] * 4,
            *[self.virtual] * 2,
            self.branch,
            self.tag,
            self.delete_tag,
            self.reset,
            self.empty_commit,
            self.rebase,
            self.fork,
            self.abandon,
            self.shift,
            self.expire,
            self.collect,
        ]
        if self.spec_version == 2:
            everything += [self.amend, self.amend, self.move, self.move, self.detached]
            everything += [self.describe, self.flag]
        if self.spec_version == 2 and self.module.__name__ == "frazil":
            everything += [self.squash, self.revert, self.rewrite, self.pack, self.purge]
        for _ in range(steps):
            self.draw.choice(everything)()
        return self

    # Parts

    def _repo(self) -> Any:
        return self.module.Repository.open(self.storage)

    def _splitting(self) -> Any:
        module = self.module
        sizes = {
            module.ManifestSplitCondition.AnyArray(): {
                module.ManifestSplitDimCondition.Any(): self.draw.choice([1, 2, 3])
            }
        }
        return module.ManifestConfig(splitting=module.ManifestSplittingConfig.from_dict(sizes))

    def _session(self) -> Any:
        return self._repo().writable_session("main")

    def _edit(self, store: Any) -> None:
        root = zarr.open_group(store, mode="a")
        group = self.draw.choice(["", "g/", "g/h/"])
        name = group + self.draw.choice(NAMES)
        match self.draw.randrange(6):
            case 0 if self.arrays:
                gone = self.draw.choice(sorted(self.arrays))
                del root[gone]
                self._forget(gone)
            case 1 if self.arrays:
                self._resize(root)
            case 2:
                root.attrs["n"] = self.draw.random()
            case 3 if "g" in root:
                del root["g"]
                self._forget("g")
            case _:
                self._create(root, name)

    def _forget(self, path: str) -> None:
        for other in [p for p in self.arrays if p == path or p.startswith(f"{path}/")]:
            del self.arrays[other]

    def _resize(self, root: zarr.Group) -> None:
        path = self.draw.choice(sorted(self.arrays))
        array: Any = root[path]
        shape = tuple(self.draw.randrange(0, 9) for _ in array.shape)
        array.resize(shape)
        self.arrays[path] = shape

    def _create(self, root: zarr.Group, name: str) -> None:
        if any(name != other and name.startswith(f"{other}/") for other in self.arrays):
            return
        shape = tuple(self.draw.randrange(0, 7) for _ in range(self.draw.randrange(0, 3)))
        names = [self.draw.choice(["x", "y", None]) for _ in shape]
        self._forget(name)
        array: Any = root.create_array(
            name,
            shape=shape,
            chunks=tuple(self.draw.randrange(1, 4) for _ in shape),
            dtype=self.draw.choice(["i4", "f8"]),
            dimension_names=names if self.draw.random() < 0.5 else None,
            overwrite=True,
        )
        self.arrays[name] = shape
        if self.draw.random() < 0.8:
            array[...] = self.draw.randrange(1, 100)

    def _write(self, store: Any) -> bool:
        filled = [path for path, shape in sorted(self.arrays.items()) if all(shape)]
        if not filled:
            return False
        array: Any = zarr.open_array(store, path=self.draw.choice(filled), mode="r+")
        where = tuple(self.draw.randrange(size) for size in array.shape)
        array[where or ...] = self.draw.randrange(1, 100)
        return True

    def _commit(self, session: Any, message: str) -> None:
        if session.has_uncommitted_changes:
            session.commit(message, metadata={"k": self.draw.random()})

    # Steps

    def commit(self) -> None:
        session = self._session()
        for _ in range(self.draw.randrange(1, 4)):
            self._edit(session.store)
        self._commit(session, "edits")

    def write_again(self) -> None:
        session = self._session()
        self._write(session.store)
        self._commit(session, "writes")

    def empty_commit(self) -> None:
        self._session().commit("nothing", allow_empty=True)

    def abandon(self) -> None:
        known = dict(self.arrays)
        session = self._session()
        self._edit(session.store)
        self.arrays = known

    def virtual(self) -> None:
        session = self._session()
        root = zarr.open_group(session.store, mode="a")
        root.create_array("virtual", shape=(8,), chunks=(2,), dtype="i4", overwrite=True)
        specs = [
            self.module.VirtualChunkSpec(
                [i], f"{CONTAINER}file-{self.draw.randrange(3)}.nc", i * 8, 8
            )
            for i in range(self.draw.randrange(1, 5))
        ]
        session.store.set_virtual_refs("virtual", specs, validate_containers=True)
        self._commit(session, "virtual")

    def branch(self) -> None:
        repo = self._repo()
        name = f"branch-{self.draw.randrange(3)}"
        if name in repo.list_branches():
            repo.delete_branch(name)
        else:
            repo.create_branch(name, self._some_snapshot(repo))

    def tag(self) -> None:
        repo = self._repo()
        self.tags += 1
        repo.create_tag(f"tag-{self.tags}", self._some_snapshot(repo))

    def delete_tag(self) -> None:
        repo = self._repo()
        for tag in sorted(repo.list_tags())[:1]:
            repo.delete_tag(tag)

    def _some_snapshot(self, repo: Any) -> str:
        found: str = self.draw.choice([info.id for info in repo.ancestry(branch="main")])
        return found

    def reset(self) -> None:
        repo = self._repo()
        name = f"branch-{self.draw.randrange(3)}"
        if name in repo.list_branches():
            repo.reset_branch(name, self._some_snapshot(repo))

    def rebase(self) -> None:
        """Two sessions that write to different arrays, one after the other."""
        if len([path for path, shape in self.arrays.items() if all(shape)]) < 2:
            return
        first, second = self._session(), self._session()
        self._write(first.store)
        zarr.open_group(second.store, mode="a").create_group("rebased", overwrite=True)
        self._commit(first, "first")
        with contextlib.suppress(self.module.RebaseFailedError, self.module.ConflictError):
            second.commit("second", rebase_with=self.module.BasicConflictSolver())

    def fork(self) -> None:
        session = self._session()
        if session.has_uncommitted_changes:
            return
        fork = session.fork()
        if self._write(fork.store):
            session.merge(fork)
            self._commit(session, "forked")

    def shift(self) -> None:
        lines = [path for path, shape in sorted(self.arrays.items()) if len(shape) == 1]
        if not lines:
            return
        session = self._session()
        session.shift_array(f"/{self.draw.choice(lines)}", [self.draw.choice([-1, 1])])
        self._commit(session, "shifted")

    def amend(self) -> None:
        known = dict(self.arrays)
        session = self._session()
        self._edit(session.store)
        self._write(session.store)
        if session.has_uncommitted_changes:
            # Not the first commit, and not one that moved nodes.
            try:
                session.amend("amended")
            except self.module.SessionStateError:
                self.arrays = known

    def detached(self) -> None:
        session = self._session()
        if self._write(session.store):
            session.flush("detached")

    def move(self) -> None:
        session = self._repo().rearrange_session("main")
        if not self.arrays:
            return
        path = self.draw.choice(sorted(self.arrays))
        target = f"moved-{self.draw.randrange(1000)}"
        session.move(f"/{path}", f"/{target}")
        session.commit("moved")
        self.arrays[target] = self.arrays.pop(path)

    def describe(self) -> None:
        self._repo().set_metadata({"n": self.draw.random()})

    def flag(self) -> None:
        self._repo().set_feature_flag("delete_tag", self.draw.choice([True, None]))

    # frazil's own

    def squash(self) -> None:
        repo = self._repo()
        ids = [info.id for info in repo.ancestry(branch="main")]
        if len(ids) > 2:
            last = self.draw.randrange(len(ids) - 2)
            first = self.draw.randrange(last, len(ids) - 1)
            repo.squash(ids[first], ids[last], branch="main", message="squashed")

    def revert(self) -> None:
        repo = self._repo()
        ids = [info.id for info in repo.ancestry(branch="main")]
        if len(ids) > 1:
            with contextlib.suppress(self.module.IcechunkError):  # conflicts, moves
                repo.revert(self.draw.choice(ids[:-1]), branch="main")
        self._look_again()

    def rewrite(self) -> None:
        method = self.draw.choice(["new_commit", "amend"])
        with contextlib.suppress(self.module.IcechunkError):  # nothing to amend
            self._repo().rewrite_manifests("rewritten", branch="main", commit_method=method)

    def pack(self) -> None:
        self._repo().pack(branch="main", small_bytes=1000, pack_bytes=4000)

    def purge(self) -> None:
        if self.arrays:
            self._repo().purge_path(f"/{self.draw.choice(sorted(self.arrays))}")
        self._look_again()

    def _look_again(self) -> None:
        nodes = self._repo().readonly_session("main").engine.nodes()
        found = {node.path.text[1:]: node.array.shape for node in nodes if node.array is not None}
        self.arrays = {path: shape for path, shape in found.items() if path != "virtual"}

    def expire(self) -> None:
        repo = self._repo()
        if not hasattr(repo, "expire_snapshots"):
            return
        repo.expire_snapshots(older_than=datetime.now(UTC) + timedelta(seconds=-0.005))

    def collect(self) -> None:
        repo = self._repo()
        if not hasattr(repo, "garbage_collect"):
            return
        later = datetime.now(UTC) + timedelta(days=1)
        if self.module.__name__ == "frazil" and not self.pages:
            repo.garbage_collect(later, backups_older_than=later)
        else:
            repo.garbage_collect(later)
