"""What people see of the public classes: printed, and in a notebook."""

from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib import import_module
from typing import Any

import pytest
import zarr

import frazil
from frazil import Repository

VOID = {"br", "hr", "img"}


class Reader(HTMLParser):
    """The text of a page, and whether every element is closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def read_html(shown: Any) -> str:
    reader = Reader()
    reader.feed(shown._repr_html_())
    reader.close()
    assert reader.open == []
    return "".join(reader.text)


@pytest.fixture
def shown(repository: Repository) -> dict[str, Any]:
    """One of each class, by name."""
    session = repository.writable_session("main")
    snapshot = next(iter(repository.ancestry(branch="main")))
    values = [
        repository,
        session,
        session.store,
        snapshot,
        session.status(),
        repository.status,
        repository.config,
        frazil.CachingConfig(num_chunk_refs=3),
        frazil.StorageSettings(storage_class="cold"),
        repository.feature_flags()[0],
        next(iter(repository.ops_log())),
        frazil.ManifestFileInfo(id="X", size_bytes=1, num_chunk_refs=2),
    ]
    return {type(value).__name__: value for value in values}


def test_everything_has_a_name_and_its_fields_in_a_notebook(shown: dict[str, Any]) -> None:
    for name, value in shown.items():
        assert f"frazil.{name}" in read_html(value)


def test_a_repository_tells_where_it_is_and_what_was_configured(repository: Repository) -> None:
    assert str(repository).startswith(
        "<frazil.Repository (v2)>\nstorage: Storage.new_in_memory()\nconfig: defaults\n"
    )
    cached = repository.reopen(
        frazil.RepositoryConfig(caching=frazil.CachingConfig(num_chunk_refs=3))
    )
    assert "    caching:\n        <frazil.CachingConfig>\n" in str(cached)
    assert "num_chunk_refs: 3" in read_html(cached)


def test_a_session_tells_what_can_be_done_with_it(repository: Repository) -> None:
    session = repository.writable_session("main")
    tip = repository.lookup_branch("main")
    assert str(session) == (
        f"<frazil.Session>\nread_only: False\nsnapshot_id: {tip}\nbranch: main\n"
        "has_uncommitted_changes: False\ntree:\n    /\n    (empty)"
    )
    assert str(repository.readonly_session("main")) == (
        f"<frazil.Session>\nread_only: True\nsnapshot_id: {tip}\ntree:\n    /\n    (empty)"
    )


def test_a_store_is_one_line_because_zarr_prints_it_inside_others(repository: Repository) -> None:
    assert "\n" not in str(repository.readonly_session("main").store)


def test_what_people_wrote_is_text_not_markup(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.commit("<script>alert('&')</script>", {"<b>": "</div>"}, allow_empty=True)
    snapshot = next(iter(repository.ancestry(branch="main")))
    assert "<script>alert('&')</script>" in read_html(snapshot)
    assert "<script>" not in snapshot._repr_html_()


def test_a_configuration_can_be_typed_in_again() -> None:
    config = frazil.RepositoryConfig(
        inline_chunk_threshold_bytes=7,
        compression=frazil.CompressionConfig(frazil.CompressionAlgorithm.Zstd, 4),
        manifest=frazil.ManifestConfig(preload=frazil.ManifestPreloadConfig(max_total_refs=5)),
    )
    names = {name: getattr(frazil, name) for name in import_module("frazil").__all__}
    assert eval(repr(config), names) == config  # noqa: S307 -- what is tested


def test_secrets_are_not_shown() -> None:
    store = frazil.ObjectStoreConfig.Http({}, {"Authorization": "hush"})
    container = frazil.VirtualChunkContainer("https://host/", store)
    config = frazil.RepositoryConfig(virtual_chunk_containers={"https://host/": container})
    for value in (store, container, config):
        assert "hush" not in repr(value) + str(value) + value._repr_html_()


@pytest.mark.parametrize(
    ("member", "text"),
    [
        (frazil.ChunkType.inline, "ChunkType.inline"),
        (frazil.SpecVersion.v1, "SpecVersion.v1"),
        (frazil.SpecVersion.v2, "SpecVersion.v2 (current)"),
        (frazil.SessionMode.readonly, "SessionMode.readonly"),
        (frazil.RepoAvailability.read_only, "RepoAvailability.read_only"),
        (frazil.CompressionAlgorithm.Zstd, "CompressionAlgorithm.Zstd"),
    ],
)
def test_members_of_an_enumeration_are_printed_by_name(member: Any, text: str) -> None:
    assert str(member) == repr(member) == f"{member}" == text
    assert member == int(member)


def test_times_and_sets_are_shown_for_people(repository: Repository) -> None:
    when = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    status = frazil.RepoStatus(frazil.RepoAvailability.read_only, when, "moving")
    assert "set_at: 2024-05-06 07:08:09+00:00" in str(status)
    empty = repository.writable_session("main").status()
    diff = replace(empty, new_groups={"/b", "/a"})
    assert "Groups created/a\n/b" in read_html(diff)
    assert "Arrays" not in read_html(diff)


@pytest.fixture
def weather(repository: Repository) -> Repository:
    """Two commits, a branch and a tag."""
    with repository.transaction("main", message="the first day\n\nand more") as store:
        group = zarr.create_group(store).create_group("model")
        about: dict[str, Any] = {"long_name": "2 metre temperature", "units": "K"}
        group.create_array("t2m", shape=(4, 2), chunks=(2, 2), dtype="f4", attributes=about)
    repository.create_tag("v1", repository.lookup_branch("main"))
    repository.create_branch("fix", repository.lookup_branch("main"))
    with repository.transaction("main", message="values <b>") as store:
        array: Any = zarr.open_group(store)["model/t2m"]
        array[:] = 1.0
    return repository


TREE = ["/", "└── model/", "    └── t2m  (4, 2) float32, chunks 2x2, 32 B  2 metre temperature [K]"]


def test_a_repository_shows_its_refs_commits_and_tree(weather: Repository) -> None:
    lines = str(weather).splitlines()
    tips = {name: weather.lookup_branch(name)[:8] for name in ("main", "fix")}
    start = lines.index("branches:")
    assert lines[start + 1 : start + 5] == [
        f"    main: {tips['main']}",
        f"    fix: {tips['fix']}",
        "tags:",
        f"    v1: {tips['fix']}",
    ]
    commits = lines[lines.index("last commits on main:") + 1 :]
    assert [line.split(": ")[1] for line in commits[:3]] == [
        "values <b>",
        "the first day",
        "Repository initialized",
    ]
    assert lines[-3:] == [f"    {line}" for line in TREE]
    shown = read_html(weather)
    assert "values <b>" in shown
    assert "\n".join(TREE) in shown


def test_a_session_shows_its_tree_and_what_is_uncommitted(weather: Repository) -> None:
    session = weather.writable_session("main")
    assert "\n".join(TREE) in read_html(session)
    array: Any = zarr.open_group(session.store)["model/t2m"]
    array[0, 0] = 2.0
    assert "/model/t2m: 1 chunk" in read_html(session)
    assert "    Chunks updated: /model/t2m: 1 chunk" in str(session)


def test_a_diff_shows_only_what_there_is(weather: Repository) -> None:
    diff = weather.diff(from_tag="v1", to_branch="main")
    assert read_html(diff) == "frazil.DiffChunks updated: /model/t2m: 2 chunks"
    assert "changes: none" in read_html(weather.writable_session("main").status())


def test_histories_show_their_next_entries_and_keep_them(weather: Repository) -> None:
    ancestry, ops = weather.ancestry(branch="main"), weather.ops_log()
    for history in (ancestry, ops):
        assert "object at 0x" not in repr(history)
    assert repr(ancestry).splitlines()[1].endswith(": values <b>")
    assert "TagCreated: name v1" in repr(ops)
    assert "values <b>" in read_html(ancestry)
    assert next(iter(ancestry)).message == "values <b>"
    assert "values" not in repr(ancestry)
    assert [each.message for each in ancestry] == [
        "the first day\n\nand more",
        "Repository initialized",
    ]
    assert "none left" in repr(ancestry)
    assert len(list(ops)) == len(list(weather.ops_log()))


def test_what_cannot_be_read_is_left_out(weather: Repository) -> None:
    weather.delete_branch("fix")
    session = weather.writable_session("main")
    zarr.create_group(session.store, overwrite=True)
    assert "(empty)" in read_html(session)


def test_a_picture_of_history_has_no_colours_in_a_file(weather: Repository) -> None:
    assert "\x1b" not in repr(weather.ancestry_graph())
