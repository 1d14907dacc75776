"""Templates and generators, by the examples of the specification and beyond."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.references.json_sets import TemplateError, expand_generator, expand_template

TEMPLATES = {"u": "server.domain/path", "f": "{{c}}", "g": "{{a}}-{{b}}"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://target", "http://target"),
        ("http://{{u}}", "http://server.domain/path"),
        ("http://{{ u }}/x", "http://server.domain/path/x"),
        ("http://{{f(c='text')}}", "http://text"),
        ("{{g(a='x', b=3)}}", "x-3"),
        ("{{u + '.nc'}}", "server.domain/path.nc"),
        ("{{'%03d' % 7}}", "007"),
        ("{{'{:02d}'.format(5)}}", "05"),
        ("{{2 * (3 + 4) - 1}}", "13"),
        ("{single}", "{single}"),
    ],
)
def test_holes_are_filled(text: str, expected: str) -> None:
    assert expand_template(text, TEMPLATES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{unknown}}",
        "{{}}",
        "{{u.upper()}}",
        "{{().__class__}}",
        "{{u * 1000000000}}",
        "{{10 ** 10 ** 10}}",
        "{{'%999999999d' % 1}}",
        "{{'{:999999999d}'.format(1)}}",
        "{{1 // 0}}",
        "{{'a' + 1}}",
        "{{'%d' % 'x'}}",
        "{{[1][0]}}",
        "{{lambda: 0}}",
        "{{" + "(" * 5000 + "}}",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(TemplateError):
        expand_template(text, TEMPLATES)


def test_a_generator_makes_all_combinations_the_last_dimension_fastest() -> None:
    generator = {
        "key": "a/{{i}}.{{j}}",
        "url": "http://{{u}}_{{i}}_{{name}}",
        "offset": "{{(i + 1) * 1000 + j}}",
        "length": "1000",
        "dimensions": {"i": {"stop": 2}, "j": {"start": 4, "stop": 8, "step": 3}, "name": ["x"]},
    }
    keys, urls, offsets, lengths = expand_generator(generator, TEMPLATES)
    assert keys == ["a/0.4", "a/0.7", "a/1.4", "a/1.7"]
    assert urls[0] == "http://server.domain/path_0_x"
    assert offsets == [1004, 1007, 2004, 2007]
    assert lengths == [1000] * 4


def test_a_generator_without_ranges_is_of_whole_files() -> None:
    generator = {"key": "a/{{i}}", "url": "f{{'%02d' % i}}", "dimensions": {"i": [3, 10]}}
    assert expand_generator(generator, {}) == (["a/3", "a/10"], ["f03", "f10"], None, None)


@pytest.mark.parametrize(
    "change",
    [
        {"offset": "0"},
        {"dimensions": {}},
        {"dimensions": {"i": {"stop": 10**15}}},
        {"dimensions": {"i": {"stop": 10**5}, "j": {"stop": 10**5}}},
        {"dimensions": {"i": {"stop": 3, "step": 0}}},
        {"dimensions": {"i": 3}},
        {"key": None},
        {"offset": "x{{i}}", "length": "1"},
    ],
)
def test_a_generator_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    generator = {"key": "a/{{i}}", "url": "f", "dimensions": {"i": {"stop": 3}}}
    with pytest.raises(TemplateError):
        expand_generator({**generator, **change}, {})


@given(
    st.integers(0, 5),
    st.integers(1, 4),
    st.integers(-1000, 10**12),
    st.integers(-1000, 10**12),
)
def test_a_generator_calculates_as_python_does(stop: int, step: int, a: int, b: int) -> None:
    generator = {
        "key": "{{i}}",
        "url": "f",
        "offset": f"{{{{i * {a} + ({b} - i) // 7 % 11}}}}",
        "length": "1",
        "dimensions": {"i": {"stop": stop, "step": step}},
    }
    expected = [i * a + (b - i) // 7 % 11 for i in range(0, stop, step)]
    assert expand_generator(generator, {})[2] == expected


@given(st.text(alphabet="{}iu+*%()'d0 .", max_size=30))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    with suppress(TemplateError):
        expand_template(text, {"u": "x"})
