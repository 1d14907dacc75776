"""Options as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.runtime.access import AccessText
from frazil.spark.table.options import ReadOptions, Version, format_options, parse_options
from frazil.spark.table.selection import Between, Selection

names = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1)
versions = st.one_of(
    st.just(Version()),
    st.builds(Version, branch=names, as_of_us=st.none() | st.integers(0, 4 * 10**15)),
    st.builds(Version, tag=names),
    st.builds(Version, snapshot=names),
)
options = st.builds(
    ReadOptions,
    path=names,
    group=st.lists(names.map(str.strip).filter(bool)).map(lambda parts: "/" + "/".join(parts)),
    variables=st.none() | st.lists(names, min_size=1).map(tuple),
    columns=st.none() | st.lists(names).map(tuple),
    selection=st.sampled_from([Selection(), Selection((("x", Between(1, None)),))]),
    version=versions,
    decode_cf=st.booleans(),
    partition_bytes=st.integers(1, 2**40),
    access=st.sampled_from([AccessText(), AccessText("{}"), AccessText("", "c2VjcmV0")]),
)


@given(options)
def test_text_keeps_options(given_options: ReadOptions) -> None:
    assert parse_options(format_options(given_options)) == given_options


def test_names_are_written_with_commas_or_as_json() -> None:
    for text in ("t2m, u10", '["t2m", "u10"]'):
        assert parse_options({"path": "p", "Variables": text}).variables == ("t2m", "u10")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "'path' is missing"),
        ({"path": "p", "shape": "3"}, "unknown option 'shape'; the options are path, mode"),
        ({"path": "p", "partitionbyte": "3"}, "did you mean 'partitionBytes'"),
        ({"path": "p", "variables": "[1]"}, "list of names"),
        ({"path": "p", "variables": "[t2m]"}, "not a JSON list"),
        ({"path": "p", "decodeCf": "yes"}, "expected true or false"),
        ({"path": "p", "batchRows": "0"}, "expected a positive number"),
        ({"path": "p", "tag": "a", "asOf": "2024"}, "asOf goes with a branch, not with tag"),
        ({"path": "p", "asOf": "noon"}, "expected an ISO time"),
    ],
)
def test_mistakes_are_explained(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_options(wrong)
