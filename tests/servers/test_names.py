"""Odd names of places, branches and tags, written by one package and read by the other."""

from collections.abc import Callable
from typing import Any

import icechunk
import pytest

import frazil
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server

PREFIXES = ["with blank/100%/ä~", "/slashes//around/"]
NAMES = ["a b%c", "täg", "x^{y}~", "v1~rc"]


@pytest.fixture(params=["s3", "azure"])
def place(request: pytest.FixtureRequest) -> Callable[[Any, str], Any]:
    """Makes the storage of an engine at a prefix, below one that is new."""
    server: S3Server | AzureServer = request.getfixturevalue(f"{request.param}_server")
    new = server.new_prefix()
    return lambda engine, prefix: server.storage(engine, f"{new}/{prefix}")


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("first", [frazil, icechunk], ids=["ours", "theirs"])
def test_a_repository_at_an_odd_prefix_is_found_by_both(
    place: Callable[[Any, str], Any], prefix: str, first: Any
) -> None:
    first.Repository.create(place(first, prefix))
    for engine in (frazil, icechunk):
        found = engine.Repository.open(place(engine, prefix))
        found.create_branch(f"by-{engine.__name__}", found.lookup_branch("main"))
    found = frazil.Repository.open(place(frazil, prefix))
    assert found.list_branches() == {"main", "by-frazil", "by-icechunk"}
    keys = {info.key.partition("/")[0] for info in place(frazil, prefix).list_objects_metadata()}
    assert keys == {"repo", "snapshots", "transactions", "overwritten"}


@pytest.mark.parametrize("first", [frazil, icechunk], ids=["ours", "theirs"])
def test_refs_of_version_1_with_odd_names_are_found_by_both(
    place: Callable[[Any, str], Any], first: Any
) -> None:
    """They are names of objects there. On Azure, the reference does not list the odd ones."""
    made = first.Repository.create(place(first, "v1"), spec_version=1)
    tip = made.lookup_branch("main")
    for name in NAMES:
        made.create_tag(name, tip)
    for engine in (frazil, icechunk):
        found = engine.Repository.open(place(engine, "v1"))
        assert {found.lookup_tag(name) for name in NAMES} == {tip}
    assert frazil.Repository.open(place(frazil, "v1")).list_tags() == set(NAMES)
