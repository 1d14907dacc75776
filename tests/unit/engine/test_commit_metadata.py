from typing import Any

import pytest

from frazil.engine.refs.commit_metadata import require_json
from frazil.errors import InvalidInputError


def test_json_comes_back_as_it_was_with_keys_in_order() -> None:
    given = {"b": [1, -2, 2.5, None, True, "ü"], "a": {"z": {}, "y": (1, 2)}}

    found = require_json(given)

    assert found == {"a": {"z": {}, "y": [1, 2]}, "b": [1, -2, 2.5, None, True, "ü"]}
    assert list(found) == ["a", "b"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**64, -(2**63) - 1])
def test_numbers_that_would_change_are_refused(value: float) -> None:
    with pytest.raises(InvalidInputError, match=r"'a\.x\[1\]'") as caught:
        require_json({"a": {"x": [0, value]}})

    assert caught.value.kind == "bad-metadata"


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": {1: 2}}, {"a": b"x"}])
def test_what_is_not_json_is_a_type_error(metadata: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        require_json(metadata)
