"""Refs of version 1 that are read when they are asked for look like any other dict of refs."""

from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.refs.entry_v1 import LazyNames, LazyRefs
from frazil.errors import RefNotFoundError

NAMES = st.sampled_from(["main", "dev", "x", "y"])
REFS = st.dictionaries(NAMES, st.integers(0, 9))


class Files:
    """Where refs are stored; counts how often they were listed."""

    def __init__(self, refs: dict[str, int]) -> None:
        self.refs, self.listings = refs, 0

    def look(self, name: str) -> int:
        if name not in self.refs:
            raise RefNotFoundError(name)
        return self.refs[name]

    def list_all(self) -> dict[str, int]:
        self.listings += 1
        return dict(self.refs)


@given(REFS, st.lists(NAMES), REFS)
def test_lookups_list_nothing_and_the_rest_is_that_of_a_dict(
    refs: dict[str, int], asked: list[str], more: dict[str, int]
) -> None:
    files = Files(refs)
    lazy = LazyRefs(files.look, files.list_all)
    for name in asked:
        assert (name in lazy) == (name in refs)
        assert lazy.get(name, -1) == refs.get(name, -1)
    both = lazy | more
    assert all(both[name] == row for name, row in more.items())
    assert files.listings == 0
    assert both == refs | more
    assert dict(both) == refs | more
    assert sorted(both.items()) == sorted((refs | more).items())
    assert (sorted(lazy), sorted(lazy.keys()), sorted(lazy.values()), len(lazy)) == (
        sorted(refs),
        sorted(refs),
        sorted(refs.values()),
        len(refs),
    )
    assert files.listings == 2  # once for each of the two


def test_names_are_looked_for_one_by_one() -> None:
    names = LazyNames({"a", "b"}.__contains__, lambda: ("a", "b"))
    assert "a" in names
    assert "c" not in names
    assert (list(names), len(names), names[0], names[:1]) == (["a", "b"], 2, "a", ("a",))
