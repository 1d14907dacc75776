"""The rules of the state machines: everything that the API can do to sessions, refs and settings.

Names and positions come from small sets and need not exist: what is refused is compared too.
"""

from datetime import UTC, datetime
from typing import Any

import numpy as np
from hypothesis import strategies as st
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from tests.compat.driver import apply_edit, assert_same
from tests.compat.pairs import AUTHORS, Machine, Pair, step
from tests.compat.sides import Side, diff_of, seen_in
from tests.compat.steps import Edit
from tests.compat.test_rebase_reference import (
    ARRAYS,
    SOLVERS,
    Edits,
    edits,
    possible,
)

BRANCHES = st.sampled_from(["main", "main", "main", "dev", "x"])
TAGS = st.sampled_from(["t", "u", "v"])
NUMBERS = st.integers(0, 20)
POSITIONS = st.integers(-1, 20)  # of a snapshot; -1 is none
SOLVER = st.sampled_from([*SOLVERS])
PATHS = st.sampled_from(
    ["/a", "/b", "/g", "/g/x", "/g/h", "/g/h/y", "/n", "/g/n", "/n/x", "a", "/"]
)
ARRAY_PATHS = st.sampled_from([*(f"/{path}" for path in ARRAYS), "/g", "/n"])
KEYS = st.sampled_from(
    ["a/c/0", "a/c/3", "g/x/c/1", "b/c/9", "n/c/0", "a/zarr.json", "g/zarr.json"]
)
SET_AT = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
METADATA = st.sampled_from([None, {}, {"k": 1}, {"who": {"is": ["it", None, 2.5]}}])


def set_status(side: Side, name: str) -> None:
    module = side.engine.module
    wanted = getattr(module.RepoAvailability, name)
    side.repo.set_status(module.RepoStatus(wanted, SET_AT, "because"))


def has_deleted_chunks(session: Any, path: str) -> bool:
    """Whether some were deleted in this session: the reference goes on to move these, too."""
    changed = session.status().updated_chunks.get(path, ())
    return any(int(session.chunk_type(path, index)) == 0 for index in changed)


class SessionRules(Machine):
    """Beginning, editing and ending sessions."""

    def edit(self, pair: Pair, wanted: Edits) -> None:
        for edit in wanted:
            self._edit_once(pair, edit)
        self.require_same_sessions(pair)

    def _edit_once(self, pair: Pair, edit: Edit) -> None:
        keys: Any = {k: v for k, v in seen_in(pair.sessions[1]).items() if isinstance(v, bytes)}
        if possible(edit, keys):
            ours, reference = self.answers_of(
                pair, lambda _, session: apply_edit(session.store, edit)
            )
            assert_same(ours.error, reference.error, repr(edit))

    @step(kind=st.sampled_from(["writable", "rearrange", "readonly"]), branch=BRANCHES)
    def begin_session(self, kind: str, branch: str) -> None:
        self.begin(kind, branch)

    @step(number=NUMBERS, wanted=edits())
    def edit_session(self, number: int, wanted: Edits) -> None:
        if pair := self.pick(number, "writable", "fork"):
            self.edit(pair, wanted)

    @step(author=AUTHORS, branch=BRANCHES, wanted=edits(), metadata=METADATA)
    def commit_at_once(
        self, author: int, branch: str, wanted: Edits, metadata: dict[str, Any] | None
    ) -> None:
        if pair := self.begin("writable", branch):
            self.edit(pair, wanted)
            self.finish(author, pair, lambda _, session: session.commit("at once", metadata))
            self.drop(pair)
        self.require_same_repositories()

    @step(
        author=AUTHORS,
        number=NUMBERS,
        solver=st.none() | SOLVER,
        metadata=METADATA,
        empty=st.booleans(),
    )
    def commit(
        self,
        author: int,
        number: int,
        solver: str | None,
        metadata: dict[str, Any] | None,
        *,
        empty: bool,
    ) -> None:
        def call(side: Side, session: Any) -> object:
            chosen = solver and SOLVERS[solver](side.engine.module)
            return session.commit("later", metadata, rebase_with=chosen, allow_empty=empty)

        if pair := self.pick(number):
            self.finish(author, pair, call)
        self.require_same_repositories()

    @step(author=AUTHORS, number=NUMBERS, empty=st.booleans())
    def amend(self, author: int, number: int, *, empty: bool) -> None:
        if pair := self.pick(number):
            answer = self.finish(author, pair, lambda _, s: s.amend("amended", allow_empty=empty))
            if not answer.failed:
                self.rewrite(pair.branch)
        self.require_same_repositories()

    @step(author=AUTHORS, number=NUMBERS)
    def flush(self, author: int, number: int) -> None:
        if pair := self.pick(number, "writable", "rearrange"):
            self.finish(author, pair, lambda _, session: session.flush("aside"))
        self.require_same_repositories()

    @step(number=NUMBERS)
    def discard(self, number: int) -> None:
        if pair := self.pick(number):
            self.in_session(pair, lambda _, session: session.discard_changes(), "discard")

    @step(number=NUMBERS, solver=SOLVER)
    def rebase_session(self, number: int, solver: str) -> None:
        if pair := self.pick(number):
            self.rebase(pair, SOLVERS[solver])

    @step(number=NUMBERS, mine=edits(), theirs=edits(), solver=SOLVER, author=AUTHORS)
    def rebase_over_a_commit(
        self, number: int, mine: Edits, theirs: Edits, solver: str, author: int
    ) -> None:
        if pair := self.pick(number, "writable"):
            self.edit(pair, mine)
            self.commit_others(author, pair.branch, theirs)
            self.rebase(pair, SOLVERS[solver])
        self.require_same_repositories()

    @step(number=NUMBERS, mine=edits(), theirs=edits(), solver=SOLVER, author=AUTHORS)
    def commit_over_a_commit(
        self, number: int, mine: Edits, theirs: Edits, solver: str, author: int
    ) -> None:
        def call(side: Side, session: Any) -> object:
            return session.commit("ours", rebase_with=SOLVERS[solver](side.engine.module))

        if pair := self.pick(number, "writable"):
            self.edit(pair, mine)
            self.commit_others(1 - author, pair.branch, theirs)
            self.finish(author, pair, call)
        self.require_same_repositories()

    def commit_others(self, author: int, branch: str, wanted: Edits) -> None:
        """A commit by somebody else, of the other kind where both share a repository."""
        if other := self.begin("writable", branch):
            self.edit(other, wanted)
            self.finish(author, other, lambda _, session: session.commit("theirs"))
            self.drop(other)

    @step(number=NUMBERS)
    def fork_session(self, number: int) -> None:
        if pair := self.pick(number):
            self.fork(pair)

    @step(number=NUMBERS, other=NUMBERS)
    def merge_sessions(self, number: int, other: int) -> None:
        forks = [pair for pair in self.pairs if pair.kind == "fork"]
        if forks:
            fork = forks[number % len(forks)]
            pair = fork.parent if number % 2 else self.pick(other)
            if pair and pair is not fork and pair in self.pairs:
                self.merge(pair, fork)

    @step(number=NUMBERS, wanted=edits(), others=edits())
    def merge_two_forks(self, number: int, wanted: Edits, others: Edits) -> None:
        pair = self.pick(number, "writable")
        for each in (wanted, others):
            fork = self.fork(pair) if pair is not None and pair in self.pairs else None
            if pair is not None and fork is not None:
                self.edit(fork, each)
                self.merge(pair, fork)


class ChunkRules(Machine):
    """Chunks through the store, virtual ones, and chunks and nodes that are moved."""

    @step(number=NUMBERS, source=PATHS, goal=PATHS)
    def move(self, number: int, source: str, goal: str) -> None:
        if pair := self.pick(number, "rearrange", "rearrange", "writable"):
            self.in_session(pair, lambda _, session: session.move(source, goal), "move")

    @step(author=AUTHORS, branch=BRANCHES, source=PATHS, goal=PATHS)
    def commit_a_move(self, author: int, branch: str, source: str, goal: str) -> None:
        if pair := self.begin("rearrange", branch):
            self.in_session(pair, lambda _, session: session.move(source, goal), "move")
            self.finish(author, pair, lambda _, session: session.commit("moved"))
            self.drop(pair)
        self.require_same_repositories()

    @step(number=NUMBERS, path=ARRAY_PATHS, by=st.integers(-3, 3))
    def shift(self, number: int, path: str, by: int) -> None:
        pair = self.pick(number)
        if pair and not has_deleted_chunks(pair.sessions[0], path):
            self.in_session(pair, lambda _, session: session.shift_array(path, (by,)), "shift")

    @step(number=NUMBERS, path=ARRAY_PATHS, size=st.integers(1, 6), back=st.booleans())
    def reindex(self, number: int, path: str, size: int, *, back: bool) -> None:
        def turn(place: Any) -> Any:
            return [size - 1 - place[0]] if place[0] < size else None

        pair = self.pick(number, "writable", "fork")
        if pair and not has_deleted_chunks(pair.sessions[0], path):
            functions = (turn, turn) if back else (turn,)
            self.in_session(pair, lambda _, s: s.reindex_array(path, *functions), "reindex")

    @step(number=NUMBERS, key=KEYS, value=st.sampled_from([b"12345678", b"abcdefgh" * 100]))
    def set_key(self, number: int, key: str, value: bytes) -> None:
        buffer = default_buffer_prototype().buffer.from_bytes(value)
        pair = self.pick(number, "writable", "fork")
        if pair and not key.endswith("zarr.json"):
            self.in_session(pair, lambda _, session: sync(session.store.set(key, buffer)), "set")

    @step(number=NUMBERS, key=KEYS)
    def delete_key(self, number: int, key: str) -> None:
        if pair := self.pick(number, "writable", "fork"):
            self.in_session(pair, lambda _, session: sync(session.store.delete(key)), "delete")

    @step(number=NUMBERS, prefix=st.sampled_from(["a", "g", "g/h", "a/c", "n", "g/x/c"]))
    def delete_directory(self, number: int, prefix: str) -> None:
        if pair := self.pick(number, "writable", "fork"):
            self.in_session(pair, lambda _, s: sync(s.store.delete_dir(prefix)), "delete_dir")

    @step(number=NUMBERS, key=KEYS, etag=st.sampled_from([None, "e", SET_AT]))
    def set_virtual_ref(self, number: int, key: str, etag: str | datetime | None) -> None:
        def call(_: Side, session: Any) -> None:
            session.store.set_virtual_ref(
                key, "s3://bucket/file", offset=3, length=8, checksum=etag, validate_container=False
            )

        if pair := self.pick(number, "writable", "fork"):
            self.in_session(pair, call, "virtual reference")

    @step(number=NUMBERS, path=ARRAY_PATHS, first=st.integers(0, 4))
    def set_virtual_block(self, number: int, path: str, first: int) -> None:
        numbers = np.arange(1, 4, dtype=np.uint64)
        locations = ["s3://bucket/one", "", "s3://bucket/three"]

        def call(_: Side, session: Any) -> object:
            return session.store.set_virtual_refs_arr(
                path,
                (3,),
                locations,
                numbers,
                numbers,
                validate_containers=False,
                arr_offset=(first,),
            )

        if pair := self.pick(number, "writable", "fork"):
            ours, reference = self.answers_of(pair, call)
            assert_same(ours.plain, reference.plain, "virtual block")
            if ours.failed:
                self.drop(pair)  # the reference keeps those before the first that is wrong
            else:
                self.require_same_sessions(pair)


class RefRules(Machine):
    """Branches, tags, and what can be asked of history."""

    @step(author=AUTHORS, name=BRANCHES, position=POSITIONS)
    def create_branch(self, author: int, name: str, position: int) -> None:
        if not self.change(
            author, lambda side: side.repo.create_branch(name, side.id_at(position))
        ).failed:
            self.rewrite(name)
        self.require_same_repositories()

    @step(author=AUTHORS, name=BRANCHES, position=POSITIONS, expected=st.none() | POSITIONS)
    def reset_branch(self, author: int, name: str, position: int, expected: int | None) -> None:
        def call(side: Side) -> object:
            known = None if expected is None else side.id_at(expected)
            return side.repo.reset_branch(name, side.id_at(position), from_snapshot_id=known)

        if not self.change(author, call).failed:
            self.rewrite(name)
        self.require_same_repositories()

    @step(author=AUTHORS, name=BRANCHES)
    def delete_branch(self, author: int, name: str) -> None:
        self.change(author, lambda side: side.repo.delete_branch(name))
        self.require_same_repositories()

    @step(author=AUTHORS, name=TAGS, position=POSITIONS)
    def create_tag(self, author: int, name: str, position: int) -> None:
        self.change(author, lambda side: side.repo.create_tag(name, side.id_at(position)))
        self.require_same_repositories()

    @step(author=AUTHORS, name=TAGS)
    def delete_tag(self, author: int, name: str) -> None:
        self.change(author, lambda side: side.repo.delete_tag(name))
        self.require_same_repositories()

    @step(older=POSITIONS, newer=POSITIONS)
    def diff(self, older: int, newer: int) -> None:
        def call(side: Side) -> object:
            first, last = side.id_at(older), side.id_at(newer)
            return diff_of(side.repo.diff(from_snapshot_id=first, to_snapshot_id=last))

        self.each(call, "diff")

    @step(branch=BRANCHES, position=NUMBERS)
    def go_back_in_time(self, branch: str, position: int) -> None:
        def call(side: Side) -> object:
            moment = side.repo.lookup_snapshot(side.id_at(position)).written_at
            return side.repo.readonly_session(branch, as_of=moment).snapshot_id

        self.each(call, "as of")

    @step(tag=TAGS)
    def read_a_tag(self, tag: str) -> None:
        self.each(lambda side: seen_in(side.repo.readonly_session(tag=tag)), "contents of a tag")

    @step(position=POSITIONS)
    def read_a_snapshot(self, position: int) -> None:
        def call(side: Side) -> object:
            return seen_in(side.repo.readonly_session(snapshot_id=side.id_at(position)))

        self.each(call, "contents of a snapshot")


class AdminRules(Machine):
    """Settings of the repository."""

    @step(author=AUTHORS, value=METADATA, whole=st.booleans())
    def set_metadata(self, author: int, value: dict[str, Any] | None, *, whole: bool) -> None:
        name = "set_metadata" if whole else "update_metadata"
        self.change(author, lambda side: getattr(side.repo, name)(value or {}))
        self.require_same_repositories()

    @step(author=AUTHORS, number=NUMBERS)
    def be_read_only_for_a_while(self, author: int, number: int) -> None:
        """Everything is refused; then the repository is online again."""
        pair = self.pick(number, "writable")
        self.change(author, lambda side: set_status(side, "read_only"))
        self.begin("writable", "main")
        if pair:
            self.finish(author, pair, lambda _, session: session.commit("now", allow_empty=True))
        self.change(author, lambda side: side.repo.create_tag("w", side.id_at(0)))
        self.change(author, lambda side: side.repo.delete_branch("dev"))
        self.change(author, lambda side: side.repo.set_metadata({}))
        self.change(author, lambda side: set_status(side, "online"))
        self.require_same_repositories()

    @step(
        author=AUTHORS,
        name=st.sampled_from(["create_tag", "delete_tag", "move_node", "nonsense"]),
        value=st.sampled_from([True, None, False]),
    )
    def set_flag(self, author: int, name: str, value: bool | None) -> None:  # noqa: FBT001 -- three values
        self.change(author, lambda side: side.repo.set_feature_flag(name, value))
        self.require_same_repositories()

    @step(author=AUTHORS, threshold=st.sampled_from([0, 8, 600]))
    def save_config(self, author: int, threshold: int) -> None:
        def call(side: Side) -> None:
            config = side.engine.module.RepositoryConfig(inline_chunk_threshold_bytes=threshold)
            side.repo.reopen(config).save_config()

        self.change(author, call)
        for side in self.sides:
            side.repo = side.reopened()
        self.each(lambda side: side.repo.config.inline_chunk_threshold_bytes, "threshold")
        self.require_same_repositories()

    @step()
    def reopen(self) -> None:
        for side in self.sides:
            side.repo = side.reopened()
        self.require_same_repositories()
