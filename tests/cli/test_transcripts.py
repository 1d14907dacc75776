"""What every command shows, with pipes and on a terminal, and the words of its JSON.

`python -m tests.cli.transcripts` writes what is compared with: transcripts.txt.
"""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from scripts.make_cli_docs import JSON_WORDS
from tests.cli.running import EVERY, frazil
from tests.cli.test_every_command import WITHOUT_JSON
from tests.cli.transcripts import (
    LINES,
    ON_SPARK,
    Screen,
    World,
    make_world,
    read_recorded,
    record,
)

MARKED = [
    pytest.param(name, marks=pytest.mark.spark) if name in ON_SPARK else name for name in LINES
]
# On a terminal every command is a process of its own, and those on Spark start a JVM each.
ON_A_TERMINAL = [
    pytest.param(name, marks=[pytest.mark.spark, pytest.mark.long]) if name in ON_SPARK else name
    for name in LINES
]
RECORDED = read_recorded()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


def test_every_command_has_a_transcript() -> None:
    assert sorted(LINES) == sorted(EVERY)
    assert list(RECORDED) == list(LINES)
    for name, lines in LINES.items():
        assert shlex.split(lines[-1])[: len(name.split())] == name.split()


@pytest.mark.parametrize("name", MARKED)
def test_with_pipes(world: World, name: str) -> None:
    assert record(name, world, terminal=False) == RECORDED[name][0]


@pytest.mark.parametrize("name", ON_A_TERMINAL)
def test_on_a_terminal(world: World, name: str) -> None:
    assert record(name, world, terminal=True) == RECORDED[name][1]


def test_a_screen_is_what_remains() -> None:
    assert Screen("doing ...\r\x1b[Kdone\r\n").text() == "done\n"
    assert Screen("one\r\ntwo\r\n\x1b[1A\x1b[2Kthree").text() == "one\nthree\n"
    assert Screen("\x1b[1mabc\x1b[0m\rX").text() == "Xbc\n"
    with pytest.raises(AssertionError, match="does not know"):
        Screen("\x1b[2J")


# JSON: a word has one meaning and a thing one word, in all commands. Words that are not in
# docs/cli.md are those of one or two commands; a new one is a decision, to be made here.

OWN_WORDS: dict[str, set[str]] = {
    "ls": {"node_id", "num_chunks", "type"},
    "tree": {"node_id", "num_chunks", "type"},
    "head": {"codecs", "fill_value"},
    "ingest": {
        *("containers_added", "reason", "reused_chunks", "skipped", "virtual_chunks"),
    },
    "import-kerchunk": {"groups", "inline_chunks", "virtual_bytes", "virtual_chunks"},
    "export": {"format", "target"},
    "rechunk": {
        "codecs",
        "into",
        "read_bytes",
        "scratch_bytes",
        "shard_shape",
        "tasks",
        "unchanged",
    },
    "reduce": {"tasks", "variables"},
    "map-blocks": {"blocks"},
    "log": {"commits", "into", "joins", "lane", "lines", "places"},
    "show": {"manifest_bytes"},
    "diff": {"at", "changed", "compared", "largest", "mean"},
    "merge": {"chunk_indexes", "conflict_type"},
    "squash": {"follower_snapshot_ids", "squashed_snapshot_ids", "tip_snapshot_id"},
    "ops": {"backup_path", "operation", "updated_at"},
    "status": {"availability", "reason", "set_at", "tip"},
    "stats": {
        "exclusive",
        "inlined_bytes",
        "manifest_bytes",
        "native_bytes",
        "peak_memory_bytes",
        "refs",
        "shared",
        "total",
        "virtual_bytes",
    },
    "verify": {
        *("chunk_index", "count", "kept", "ok", "problems", "repairable", "repairs", "severity"),
        *("transactions", "unreferenced"),
    },
    "expire": {"expired_snapshot_ids"},
    "gc": {
        "attributes_deleted",
        "backups_deleted",
        "branches_deleted",
        "bytes_deleted",
        "chunks_deleted",
        "delete_errors",
        "manifests_deleted",
        "objects_failed_to_delete",
        "peak_memory_bytes",
        "skipped_phases",
        "snapshots_deleted",
        "temporary_files_deleted",
        "throttled_batches",
        "transaction_logs_deleted",
    },
    "pack": {"packs"},
    "unpack": {"packs"},
    "rewrite-manifests": {"manifests_before", "size_bytes_before"},
    "purge": {
        "backups",
        "chunk_bytes",
        "commits",
        "nodes",
        "place",
        "remaining",
        "snapshot_ids",
        "transaction_logs",
    },
    "migrate": {"in_place", "migrated", "new_snapshot_ids"},
    "config show": {"stored"},
    "config get": {"key", "stored"},
    "config set": {"before", "key"},
    "flags list": {"enabled", "set"},
    "flags set": {"enabled", "flag", "set"},
    "repo list": {"options", "repositories"},
    "repo add": {"name"},
    "repo remove": {"name"},
    "doctor": {"found", "remedy", "state", "what"},
    "spark jar": {"jar"},
}
# Values whose keys are names that users gave, or those of settings.
NAMES_INSIDE = {"attributes", "coords", "metadata", "new_snapshot_ids", "options", "updated_chunks"}
NAMED_INSIDE = {"repositories", "values"}
NAMES_AT_THE_TOP = {
    *("branch list", "tag list", "config show", "flags list", "spark conf"),
    *("metadata show", "metadata set", "metadata unset"),
}
# Other forms of the answers.
MORE_LINES = (
    ("ingest", "ingest day0.nc bad.nc weather --group /day --concat-dim time --on-error skip"),
    ("log", "log weather --graph"),
    ("diff", "diff weather v1 main --values"),
    ("rechunk", "rechunk weather /t2m --chunks time=12 --dry-run"),
    ("reduce", "reduce weather t2m --over lat --dry-run"),
    ("export", "export weather out.zarr --dry-run"),
    ("export", "export weather all.bundle"),
    ("clone", "clone weather copy --shallow"),
    ("merge", "merge weather fix --dry-run"),
    ("merge", "merge clash fix"),
    ("purge", "purge weather --message-of v1 --yes"),
    ("rewrite-manifests", "rewrite-manifests weather --dry-run"),
    ("migrate", "migrate weather --yes"),
    ("migrate", "migrate old --yes", "migrate old --confirm --yes"),
    ("verify", "verify weather --repair --dry-run"),
    ("verify", "verify damaged"),
    ("gc", "gc weather --dry-run"),
)
EXPECTED_CODES = {"merge clash fix": 4, "verify damaged": 5}


def words_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key in NAMED_INSIDE and isinstance(inner, dict):
                yield from words_in(list(inner.values()))
            elif key not in NAMES_INSIDE:
                yield from words_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words_in(inner)


def words_of(name: str, value: Any) -> set[str]:
    parts = list(value.values()) if name in NAMES_AT_THE_TOP else value
    return set(words_in(parts))


ANSWERED = [name for name in LINES if name not in WITHOUT_JSON | {"sql", "serve"}]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.spark) if name in ON_SPARK else name
        for name in ANSWERED
    ],
)
def test_json_has_the_words_that_were_agreed_upon(world: World, name: str) -> None:
    found = set[str]()
    more = [tuple(lines) for command, *lines in MORE_LINES if command == name]
    for lines in (LINES[name], *more):
        with world.copied() as folder:
            for line in lines[:-1]:
                assert frazil(*shlex.split(line)).code == 0
            answer = frazil(*shlex.split(lines[-1].replace("HERE", str(folder))), "--json")
            assert answer.code == EXPECTED_CODES.get(lines[-1], 0), answer
            found |= words_of(name, answer.json)
    assert found - JSON_WORDS.keys() == OWN_WORDS.get(name, set())


def test_no_word_of_a_command_is_that_of_three() -> None:
    """What three commands say belongs on the page."""
    used = [word for words in OWN_WORDS.values() for word in words]
    assert {word for word in used if used.count(word) > 2} == set()
    assert not set(used) & JSON_WORDS.keys()
