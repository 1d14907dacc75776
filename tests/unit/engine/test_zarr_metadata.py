import json
from typing import Any

import pytest

from frazil.engine.changes.zarr_metadata import ArrayMetadata, GroupMetadata, parse_node_metadata
from frazil.errors import InvalidInputError


def array(**changes: Any) -> bytes:
    document = {
        "node_type": "array",
        "shape": [10, 7],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 7]}},
    }
    return json.dumps(document | changes).encode()


def rectilinear(*edges: Any) -> dict[str, Any]:
    return {"name": "rectilinear", "configuration": {"chunk_shapes": list(edges)}}


def test_a_group_is_a_group() -> None:
    assert parse_node_metadata(b'{"node_type": "group"}') == GroupMetadata()


def test_a_last_partial_chunk_counts() -> None:
    assert parse_node_metadata(array()) == ArrayMetadata((10, 7), (3, 1), None)


def test_an_empty_dimension_has_no_chunks() -> None:
    assert parse_node_metadata(array(shape=[0, 7])) == ArrayMetadata((0, 7), (0, 1), None)


def test_a_scalar_array_has_an_empty_grid() -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": []}}

    assert parse_node_metadata(array(shape=[], chunk_grid=grid)) == ArrayMetadata((), (), None)


def test_an_empty_dimension_name_is_no_name() -> None:
    assert parse_node_metadata(array(dimension_names=["t", ""])) == ArrayMetadata(
        (10, 7), (3, 1), ("t", None)
    )


def test_chunks_of_a_rectilinear_grid_are_counted() -> None:
    grid = rectilinear([4, 5, 1], [[2, 3], 1])

    assert parse_node_metadata(array(chunk_grid=grid)) == ArrayMetadata((10, 7), (3, 4), None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"node_type": "tree"}',
        b"[" * 100_000,
        array(shape=None),
        array(shape=[-1, 7]),
        array(shape=[True, 7]),
        array(shape=[10]),
        array(chunk_grid=None),
        array(chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0, 7]}}),
        array(chunk_grid={"name": "hexagonal", "configuration": {}}),
        array(chunk_grid=rectilinear([5, 5])),
        array(chunk_grid=rectilinear([5, 5], "7")),
        array(chunk_grid=rectilinear([5, -5], [7])),
        array(dimension_names=["t"]),
        array(dimension_names=["t", 1]),
        array(
            shape=[2**40, 7],
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": [1, 7]}},
        ),
    ],
)
def test_what_is_not_a_node_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_node_metadata(data)

    assert caught.value.kind == "bad-metadata"
