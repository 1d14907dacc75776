"""State machines that drive both engines through everything the API can do.

Twins: each engine does the same in a repository of its own. Neighbours: both work on one
repository, with sessions of both open at the same time. HYPOTHESIS_PROFILE=deep goes on for long.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from tests.compat.driver import OURS, REFERENCE, assert_same
from tests.compat.pairs import Neighbours, Twins
from tests.compat.rules import AdminRules, ChunkRules, RefRules, SessionRules
from tests.compat.sides import Side, named, seen_in, shown_by
from tests.compat.test_rebase_reference import begin
from tests.examples_count import scaled
from tests.servers.s3 import S3Server

bounded = settings(max_examples=scaled(7), stateful_step_count=25)

# Storages of both engines for one new place: a bucket of a server would do as well
type StoragePair = Callable[[Path], tuple[Any, Any]]


def local_directory(root: Path) -> tuple[Any, Any]:
    return OURS.storage(root), REFERENCE.storage(root)


class Everything(SessionRules, ChunkRules, RefRules, AdminRules):
    """All the rules."""

    version = 2

    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        self.root = Path(self.directory.name)

    @rule()
    def rest(self) -> None:
        """Always possible."""

    def teardown(self) -> None:
        try:
            if self.sides:
                self.compare_at_the_end()
        finally:
            self.directory.cleanup()

    def compare_at_the_end(self) -> None:
        raise NotImplementedError


class TwinMachine(Twins, Everything):
    @initialize(threshold=st.sampled_from([None, 0]), updates=st.sampled_from([None, 2]))
    def create(self, threshold: int | None, updates: int | None) -> None:
        for engine in (OURS, REFERENCE):
            storage = engine.storage(self.root / engine.name)
            config = engine.config(
                inline_chunk_threshold_bytes=threshold, num_updates_per_repo_info_file=updates
            )
            repo = engine.module.Repository.create(storage, config, spec_version=self.version)
            side = Side(engine, storage, begin(repo))
            side.ids.append(repo.lookup_branch("main"))
            self.sides.append(side)
        self.require_same_repositories()

    def compare_at_the_end(self) -> None:
        """Each engine reads what the other one wrote."""
        if self.over:
            return
        for reader in (OURS, REFERENCE):
            repos = [(side, reader.open(self.root / side.engine.name)) for side in self.sides]
            shown = [named(shown_by(repo), side.ids) for side, repo in repos]
            assert_same(shown[0], shown[1], f"repositories, read by {reader.name}")
            for name in repos[0][1].list_branches():
                seen = [seen_in(repo.readonly_session(name)) for _, repo in repos]
                assert_same(seen[0], seen[1], f"branch {name}, read by {reader.name}")


class TwinMachineOfVersion1(TwinMachine):
    version = 1


class NeighbourMachine(Neighbours, Everything):
    storages: StoragePair = staticmethod(local_directory)

    @initialize(creator=st.integers(0, 1), updates=st.sampled_from([None, 2]))
    def create(self, creator: int, updates: int | None) -> None:
        engines, storages = (OURS, REFERENCE), self.storages(self.root / "repo")
        config = engines[creator].config(num_updates_per_repo_info_file=updates)
        module = engines[creator].module
        begin(module.Repository.create(storages[creator], config, spec_version=self.version))
        for engine, storage in zip(engines, storages, strict=True):
            self.sides.append(Side(engine, storage, engine.module.Repository.open(storage)))
        self.sides[1].ids = self.sides[0].ids
        self.sides[0].ids.append(self.sides[0].repo.lookup_branch("main"))
        self.require_same_repositories()

    def compare_at_the_end(self) -> None:
        """Everything, by objects that have seen nothing of it yet."""
        repos = [side.reopened() for side in self.sides]
        assert_same(shown_by(repos[0]), shown_by(repos[1]), "repository")
        for snapshot in self.sides[0].ids:
            seen = [seen_in(repo.readonly_session(snapshot_id=snapshot)) for repo in repos]
            assert_same(seen[0], seen[1], "contents of a snapshot")


class NeighbourMachineOfVersion1(NeighbourMachine):
    version = 1


@pytest.mark.parametrize(
    "machine",
    [TwinMachine, TwinMachineOfVersion1, NeighbourMachine, NeighbourMachineOfVersion1],
    ids=lambda machine: machine.__name__,
)
def test_both_engines_come_to_the_same(machine: type[Everything]) -> None:
    run_state_machine_as_test(machine, settings=bounded)


def test_they_share_a_bucket(s3_server: S3Server) -> None:
    def one_prefix(root: Path) -> tuple[Any, Any]:
        del root
        prefix = s3_server.new_prefix()
        ours, reference = (s3_server.storage(each.module, prefix) for each in (OURS, REFERENCE))
        return ours, reference

    class OnServer(NeighbourMachine):
        storages = staticmethod(one_prefix)

    run_state_machine_as_test(OnServer, settings=settings(bounded, max_examples=scaled(4)))
