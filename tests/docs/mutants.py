"""Small defects, each of which the test of a rule must find: the proof that the test can fail.

    python -m tests.docs.mutants [FILE...]    # each test with and without its defects, as JSON

A mutant of a *writer* changes files after they were written; the others replace one function of
frazil while the test runs. A mutant is found if an assertion of the test fails.
"""

import builtins
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from _pytest.runner import runtestprotocol

from frazil.engine.files.virtual_access import Grant
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.table import Table
from frazil.format.envelope import decode_envelope, encode_envelope
from frazil.maintenance.id_sets import KeySet
from frazil.objectstore.credentials import LocalFileSystemAccess
from frazil.objectstore.protocol import ALWAYS, Blob

ROOT = Path(__file__).parents[2]
SPEC, HOSTILE = "tests/unit/spec/test_", "tests/hostile/test_"
INFO, SNAP = f"{SPEC}repo_info_rules.py::", f"{SPEC}snapshot_rules.py::"
LOG, LAYOUT = f"{SPEC}transaction_log_rules.py::", f"{SPEC}layout.py::"
MAN, BOMBS = f"{SPEC}manifest_rules.py::", f"{HOSTILE}chunk_bombs.py::"
PATHS, PLACES = "tests/unit/core/test_paths.py::", f"{HOSTILE}places.py::"
IDS = "tests/unit/core/test_ids.py::"
AMOUNTS, EXECUTION = f"{HOSTILE}amounts.py::", f"{HOSTILE}execution.py::"
CONTRACT = "tests/unit/objectstore/test_contract.py::TestMemoryStore::"
COLLECT, EXPIRE = (f"tests/unit/maintenance/test_{name}.py::" for name in ("collect", "expire"))

type Change = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`rule` is a row of docs/spec-coverage.md, or says what is promised elsewhere."""

    rule: str
    test: str
    targets: str  # module:name, or module:Class.name; several with commas between
    make: Change  # of the function that is there, another
    raises: type[Exception] = AssertionError  # or what escapes from the test instead

    @property
    def name(self) -> str:
        return f"{self.rule}: {self.test.rpartition('::')[2]}"

    @contextmanager
    def applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            for target in self.targets.split(", "):
                module, _, path = target.partition(":")
                owner: Any = importlib.import_module(module)
                *above, name = path.split(".")
                for each in above:
                    owner = getattr(owner, each)
                there = vars(owner).get(name, getattr(builtins, name, None))
                stack.enter_context(patch.object(owner, name, self.make(there), create=True))
            yield


# Writers


def written(rule: str, test: str, kind: str, change: Callable[[Table], Table]) -> Mutant:
    """Every file of a kind says something else."""

    def spoil(store: Any) -> None:
        files = importlib.import_module("tests.unit.spec.written").FILES
        file_type, schema = files[kind]
        for info in list(store.list(kind)):
            table = decode(decode_envelope(store.get(info.key).data, file_type).data, schema)
            store.put(info.key, encode_envelope(encode(change(table)), file_type))

    return stored(rule, test, spoil)


def stored(rule: str, test: str, spoil: Callable[[Any], object]) -> Mutant:
    """The repository of tests/unit/spec is changed once it is complete."""

    def make(real: Any) -> Any:
        def spoiled(store: Any, repository: Any) -> Any:
            spoil(store)
            return real(store, repository)

        return spoiled

    return Mutant(rule, test, "tests.unit.spec.written:Written", make)


def backwards(field: str) -> Callable[[Table], Table]:
    """The rows of a list of tables, from the last to the first."""

    def change(table: Table) -> Table:
        rows = table.tables(field).rows
        turned = rows.take(np.arange(len(rows))[::-1])
        return table.replace(**{field: replace(table.tables(field), rows=turned)})

    return change


def turned(field: str) -> Callable[[Table], Table]:
    """The same of a list of ids."""

    def change(table: Table) -> Table:
        column = table.vector(field)
        return table.replace(**{field: replace(column, values=column.values[::-1].copy())})

    return change


def inside(field: str, change: Callable[[Table], Table]) -> Callable[[Table], Table]:
    """The change of all rows of a list of tables."""

    def outer(table: Table) -> Table:
        column = table.tables(field)
        return table.replace(**{field: replace(column, rows=change(column.rows))})

    return outer


def other_type(kind: str) -> Callable[[Any], object]:
    def spoil(store: Any) -> None:
        files = importlib.import_module("tests.unit.spec.written").FILES
        others = [file_type for name, (file_type, _) in files.items() if name != kind]
        for info in list(store.list(kind)):
            payload = decode_envelope(store.get(info.key).data, files[kind][0]).data
            store.put(info.key, encode_envelope(payload, others[0]))

    return spoil


def longer(table: Table) -> Table:
    return table.replace(size_bytes=ScalarColumn.of(table.scalar("size_bytes").values + 1, "u8"))


def inline_too(table: Table) -> Table:
    return table.replace(inline=StringColumn.from_list([b"x"] * len(table)))


def with_parent(table: Table) -> Table:
    return table.replace(parent_id=StructColumn.of(np.ones((len(table), 12), np.uint8)))


def other_id(table: Table) -> Table:
    return table.replace(id=StructColumn.of(table.struct("id").values ^ np.uint8(1)))


def no_manifests(table: Table) -> Table:
    column = table.tables("manifest_files_v2")
    none = replace(column, rows=column.rows.take(slice(0, 0)), splits=column.splits * 0)
    return table.replace(manifest_files_v2=none)


REFS_ASCEND = f"{INFO}test_refs_ascend_by_the_bytes_of_their_names"
TYPES = f"{LAYOUT}test_every_metadata_file_says_its_type"
LISTED = f"{SNAP}test_the_manifest_list_of_version_2_is_complete_and_ascends_by_id"
SIZES = f"{SNAP}test_a_manifest_list_says_how_large_the_files_are"
CHUNKS_ASCEND = f"{LOG}test_updated_chunks_ascend_by_node_and_by_index"
LIES = f"{LAYOUT}test_every_file_lies_where_the_specification_puts_it"
NAMED = f"{LAYOUT}test_a_file_is_named_after_the_id_inside_it"
DELETED = f"{INFO}test_deleted_tags_ascend_by_the_bytes_of_their_names"


def deleted_backwards(table: Table) -> Table:
    names = table.strings("deleted_tags").row(0)[::-1]
    return table.replace(deleted_tags=type(table.strings("deleted_tags")).from_lists([names]))


WRITERS = (
    written("REPO-3", REFS_ASCEND, "repo", backwards("tags")),
    written("REPO-4", REFS_ASCEND, "repo", backwards("branches")),
    written("REPO-5", DELETED, "repo", deleted_backwards),
    written("REPO-6", f"{INFO}test_snapshots_ascend_by_id", "repo", backwards("snapshots")),
    written("SNAP-3", f"{SNAP}test_a_snapshot_does_not_name_its_parent", "snapshots/", with_parent),
    written(
        "SNAP-4",
        f"{SNAP}test_nodes_ascend_by_path_in_the_order_the_reference_searches",
        "snapshots/",
        backwards("nodes"),
    ),
    written("SNAP-5", f"{SNAP}test_metadata_ascends_by_name", "snapshots/", backwards("metadata")),
    written("SNAP-8", LISTED, "snapshots/", no_manifests),
    written("SNAP-9", LISTED, "snapshots/", backwards("manifest_files_v2")),
    written("SNAP-14", SIZES, "snapshots/", inside("manifest_files_v2", longer)),
    written("FACT-24", SIZES, "snapshots/", inside("manifest_files_v2", longer)),
    written(
        "MAN-3",
        f"{MAN}test_chunk_refs_ascend_by_index",
        "manifests/",
        inside("arrays", backwards("refs")),
    ),
    written(
        "MAN-4",
        f"{MAN}test_a_chunk_ref_is_of_exactly_one_kind",
        "manifests/",
        inside("arrays", inside("refs", inline_too)),
    ),
    *(
        written("LOG-4", f"{LOG}test_node_ids_ascend", "transactions/", turned(field))
        for field in ("new_groups", "deleted_arrays", "updated_groups")
    ),
    written("LOG-7", NAMED, "transactions/", other_id),
    written("ID-2", NAMED, "snapshots/", other_id),
    written("LOG-8", CHUNKS_ASCEND, "transactions/", backwards("updated_chunks")),
    written("LOG-9", CHUNKS_ASCEND, "transactions/", inside("updated_chunks", backwards("chunks"))),
    stored("REPO-2", TYPES, other_type("repo")),
    stored("SNAP-1", TYPES, other_type("snapshots/")),
    stored("MAN-1", TYPES, other_type("manifests/")),
    stored("LOG-2", TYPES, other_type("transactions/")),
    stored(
        "LOG-1",
        f"{LAYOUT}test_every_snapshot_has_a_transaction_log",
        lambda store: store.delete([next(iter(store.list("transactions/"))).key]),
    ),
    stored("FILE-1", LIES, lambda store: store.put("extra/file", b"")),
    stored("REPO-1", LIES, lambda store: store.copy("repo", "repository")),
)


# Functions


def always(value: object) -> Change:
    return lambda _: lambda *_args, **_options: value


def unsorted(_: object) -> Callable[..., list[Any]]:
    """In the place of `sorted`."""
    return lambda items, **_options: list(items)


def accepting(violates: Callable[[str], bool]) -> Change:
    return lambda real: lambda text: None if violates(text) else real(text)


def tags_move(real: Any) -> Any:
    def create(info: Any, name: str, snapshot: Any) -> Any:
        return real(replace(info, tags={}), name, snapshot)

    return create


def tags_return(real: Any) -> Any:
    def create(info: Any, name: str, snapshot: Any) -> Any:
        return real(replace(info, deleted_tags=()), name, snapshot)

    return create


def forgetful(real: Any) -> Any:
    def get(store: Any, key: str, *ranges: Any) -> Any:
        return Blob(b"stale") if ranges in ((), (None,)) else real(store, key, *ranges)

    return get


def careless(real: Any) -> Any:
    def put(store: Any, key: str, data: Any, **_when: Any) -> Any:
        return real(store, key, data, when=ALWAYS)

    return put


def any_grant(real: Any) -> Any:
    def grant_for(access: Any, location: str) -> Any:
        try:
            return real(access, location)
        except Exception:  # noqa: BLE001 -- the mutant gives leave to all
            return Grant(access.containers.find(location), LocalFileSystemAccess())

    return grant_for


def moves(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Change:
    """What is written about moves is changed."""

    def make(real: Any) -> Any:
        return lambda log, **options: real(replace(log, moved=change(log.moved)), **options)

    return make


def collecting_all(real: Any) -> Any:
    """Of any age."""
    return lambda **options: real(**{**options, "cutoff_us": 2**62, "safety_age_us": 0})


def with_identity(moved: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*moved, *(replace(each, from_path=each.to_path) for each in moved[:1]))


MOVED = f"{LOG}test_moves_are_recorded_once_for_each_node_that_ended_elsewhere"
MOVES_ASCEND = f"{LOG}test_moves_ascend_by_the_components_of_where_they_went"
CANONICAL = f"{PATHS}test_paths_that_are_not_absolute_and_canonical_are_refused"
FUNCTIONS = (
    Mutant(
        "STORE-1",
        f"{CONTRACT}test_an_object_is_read_as_it_was_written",
        "frazil.objectstore.memory:MemoryStore.get",
        forgetful,
    ),
    Mutant(
        "STORE-2",
        f"{CONTRACT}test_update_needs_the_version_that_is_there",
        "frazil.objectstore.memory:MemoryStore.put",
        careless,
    ),
    Mutant(
        "REF-1",
        f"{INFO}test_a_new_repository_has_main_and_it_stays",
        "frazil.engine.refs.refs:require_deletable",
        always(None),
    ),
    Mutant(
        "REF-2",
        f"{INFO}test_a_tag_cannot_be_pointed_elsewhere",
        "frazil.engine.refs.refs:create_tag",
        tags_move,
    ),
    Mutant(
        "REF-3",
        f"{INFO}test_a_tag_once_deleted_cannot_be_created_again",
        "frazil.engine.refs.refs:create_tag",
        tags_return,
    ),
    Mutant(
        "ID-1",
        f"{IDS}test_the_initial_snapshot_is_spelt_as_in_the_specification",
        "frazil.ids:format_base32",
        lambda real: lambda raw: real(raw).lower(),
    ),
    Mutant("PATH-1", CANONICAL, "frazil.paths:_problem", accepting(lambda text: text[:1] != "/")),
    Mutant(
        "PATH-2",
        f"{PATHS}test_a_child_knows_its_parent_and_name",
        "frazil.paths:NodePath.child",
        lambda real: lambda path, name: real(path, f"{name}-"),
    ),
    Mutant("PATH-3", CANONICAL, "frazil.paths:_problem", accepting(lambda text: text[-1:] == "/")),
    Mutant("PATH-4", CANONICAL, "frazil.paths:_problem", accepting(lambda text: "." in text)),
    Mutant(
        "REPO-7", f"{INFO}test_feature_flags_ascend", "frazil.format.repo_info:sorted", unsorted
    ),
    Mutant(
        "REPO-8", f"{INFO}test_feature_flags_ascend", "frazil.format.repo_info:sorted", unsorted
    ),
    Mutant(
        "REPO-10",
        f"{INFO}test_a_backup_is_named_after_the_time_left_until_the_year_3000",
        "frazil.engine.files.object_keys:_YEAR_3000_MS",
        lambda real: real + 1_000_000_000,
    ),
    Mutant(
        "MAN-2",
        f"{MAN}test_arrays_of_a_manifest_ascend_by_node_id",
        "frazil.format.manifest:sorted",
        unsorted,
    ),
    Mutant("LOG-11", MOVES_ASCEND, "frazil.format.transaction_log:sorted", unsorted),
    Mutant(
        "LOG-13",
        MOVED,
        "frazil.format.transaction_log:encode_txlog",
        moves(lambda moved: moved + moved[-1:]),
    ),
    Mutant(
        "LOG-14",
        MOVED,
        "frazil.format.transaction_log:encode_txlog",
        moves(lambda moved: moved[:2]),
    ),
    Mutant("LOG-16", MOVED, "frazil.format.transaction_log:encode_txlog", moves(with_identity)),
)

SECURITY = (
    Mutant(
        "unauthorized location",
        f"{PLACES}test_a_location_that_nobody_authorized_is_not_read",
        "frazil.engine.files.virtual_access:VirtualAccess.grant_for",
        any_grant,
    ),
    Mutant(
        "links in folders",
        f"{PLACES}test_links_in_authorized_folders_do_not_lead_out",
        "frazil.objectstore.local.local_source:LocalSource._real_path",
        lambda _: lambda _source, key: "/" + key,
    ),
    Mutant(
        "links in repositories",
        f"{PLACES}test_links_in_a_repository_are_not_followed",
        "frazil.objectstore.local.local_directories:Directories.require_real",
        always(None),
    ),
    Mutant(
        "server of a bucket",
        f"{PLACES}test_a_stored_container_cannot_choose_the_server_of_a_bucket",
        "frazil.engine.files.virtual_access:unauthorized_endpoint",
        always(None),
    ),
    Mutant(
        "redirects of web servers",
        f"{PLACES}test_a_redirect_of_a_web_server_cannot_lead_inside",
        "frazil.objectstore.remote.redirect:require_staying",
        always(None),
    ),
    Mutant(
        "redirect storage",
        f"{PLACES}test_redirect_storage_cannot_lead_inside",
        "frazil.objectstore.remote.redirect:may_lead",
        always(True),
    ),
    Mutant(
        "addresses",
        f"{PLACES}test_addresses_for_everybody_may_be_led_to",
        "frazil.objectstore.remote.redirect:_is_public",
        always(True),
    ),
    Mutant(
        "metadata limit",
        f"{AMOUNTS}test_the_limit_is_a_setting",
        "frazil.format.limits:Limits.payload_bytes",
        always(2**31),
    ),
    Mutant(
        "limit of the first file",
        f"{AMOUNTS}test_the_setting_is_for_the_first_file_too",
        "frazil.format.limits:Limits.payload_bytes",
        always(2**31),
    ),
    Mutant(
        "stored configuration",
        f"{AMOUNTS}test_a_stored_configuration_gets_no_more_than_the_limits",
        "frazil.engine.repository:limited_config",
        lambda _: lambda config, _limits: config,
    ),
    Mutant(
        "markup in HTML",
        f"{EXECUTION}test_names_and_messages_are_escaped_in_html_and_svg",
        "frazil.format.records:html",
        lambda _: SimpleNamespace(escape=lambda text, *_a, **_k: text),
    ),
    Mutant(
        "markup in SVG",
        f"{EXECUTION}test_names_and_messages_are_escaped_in_html_and_svg",
        "frazil.describe.graph:html",
        lambda _: SimpleNamespace(escape=lambda text, *_a, **_k: text),
    ),
    Mutant(
        "gzip bomb",
        f"{BOMBS}test_a_chunk_of_gzip_that_holds_too_much_is_refused",
        "frazil.zarrstore.pipeline.reading:_MEASURES",
        lambda _: {},
        ValueError,
    ),
    Mutant(
        "reading writes nothing",
        f"{AMOUNTS}test_reading_writes_nothing",
        "frazil.engine.files.files:Files.fetch_snapshot",
        lambda real: lambda files, name: (files.store.put("read", b""), real(files, name))[1],
    ),
)

MAINTENANCE = (
    Mutant(
        "garbage collection keeps what is reachable",
        f"{COLLECT}test_what_nothing_leads_to_goes_and_the_rest_can_be_read",
        "frazil.maintenance.gc_tasks:GCWork.chunks",
        always(KeySet.empty()),
    ),
    Mutant(
        "garbage collection keeps what is young",
        f"{COLLECT}test_what_is_as_young_as_the_cutoff_stays",
        "frazil.maintenance.gc:GCRequest",
        collecting_all,
    ),
    Mutant(
        "a cutoff is safe",
        f"{COLLECT}test_a_cutoff_that_a_session_may_be_older_than_is_refused",
        "frazil.maintenance.gc:require_safe",
        always(None),
    ),
    Mutant(
        "a migration is confirmed first",
        f"{COLLECT}test_old_files_of_a_migration_stay_until_it_is_confirmed",
        "frazil.maintenance.gc:_require_confirmed",
        always(None),
    ),
    Mutant(
        "protected refs stay",
        f"{EXPIRE}test_protected_refs_stay_with_all_of_their_history",
        "frazil.maintenance.expire:_matches",
        always(False),
    ),
)

MUTANTS = (*WRITERS, *FUNCTIONS, *SECURITY, *MAINTENANCE)


class Runner:
    """Runs each item without a mutant, and then with each of its own until one of them is found."""

    def __init__(self) -> None:
        self.sound: dict[str, bool] = {}
        self.found: dict[str, str] = {}
        self._raised: pytest.ExceptionInfo[BaseException] | None = None
        self._phase = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        test = item.nodeid.partition("[")[0]
        left = [each for each in MUTANTS if each.test == test and each.name not in self.found]
        if left:
            self.sound[test] = self.sound.get(test, True) and self._passes(item)
        for mutant in left:
            with mutant.applied():
                passed = self._passes(item)
            expected = AssertionError | pytest.fail.Exception | mutant.raises
            if not passed and self._raised and isinstance(self._raised.value, expected):
                self.found[mutant.name] = self._phase
        return True

    def _passes(self, item: Any) -> bool:
        self._raised, self._phase = None, ""
        item._initrequest()
        runtestprotocol(item, log=False, nextitem=None)
        return self._raised is None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None and self._raised is None:
            self._raised, self._phase = call.excinfo, call.when


class Collector:
    """Marks by test: one that pytest does not find, skips or leaves to other commands is none."""

    def __init__(self) -> None:
        self.marks: dict[str, list[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            file = item.nodeid.partition("::")[0]
            test = f"{file}::{getattr(item, 'originalname', item.name)}"
            marks = {mark.name for mark in item.iter_markers()}
            self.marks[test] = sorted({*self.marks.get(test, ()), *marks})


def main(*named: str) -> None:
    """`named`: files with tests that are to be collected."""
    runner, collector = Runner(), Collector()
    tests = list(dict.fromkeys(mutant.test for mutant in MUTANTS))
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--no-summary"]
    with patch.object(sys, "stdout", sys.stderr):
        pytest.main([*options, f"--rootdir={ROOT}", *tests], plugins=[runner])
        if named:
            pytest.main([*options, "--collect-only", *named], plugins=[collector])
    found = {"sound": runner.sound, "found": runner.found, "collected": collector.marks}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
