"""docs/parity.md says what is so, and leaves nothing unexplained."""

import re
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import icechunk
import pytest

import frazil
from frazil.compatibility import ICECHUNK_VERSION, SUBMODULES
from scripts import make_parity
from scripts.parity import behaviour
from scripts.parity.displays import Pair, Shown
from scripts.parity.displays import compare as compare_texts
from scripts.parity.names import (
    Difference,
    Note,
    Section,
    class_section,
    compare,
    compare_parameters,
    only_ours,
)
from scripts.parity.outcome import Outcome
from scripts.parity.outcome import compare as compare_outcomes
from scripts.parity.surface import Offer, Parameter, format_call, offer_of

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def sections() -> list[Section]:
    return make_parity.current_sections()


def test_the_page_is_about_the_release_that_is_tested_against() -> None:
    assert icechunk.__version__ == ICECHUNK_VERSION


@pytest.fixture(scope="module")
def chapters() -> list[behaviour.Chapter]:
    """The tours: some 650 wrong calls and 100 values, by both packages."""
    return behaviour.chapters()


def test_the_page_is_up_to_date(sections: list[Section], chapters: list[behaviour.Chapter]) -> None:
    page = make_parity.format_page(sections, chapters, only_ours(frazil, icechunk))
    assert make_parity.PAGE.read_text() == page, "run `make parity`"


def test_everything_that_is_missing_or_differs_is_explained_and_nothing_else(
    sections: list[Section], chapters: list[behaviour.Chapter]
) -> None:
    assert make_parity.problems(sections, chapters) == []


def test_the_tour_is_long_and_most_calls_are_refused(chapters: list[behaviour.Chapter]) -> None:
    """A tour whose calls all fail by a mistake in the tour would compare nothing."""
    rows = chapters[0].rows
    assert len(rows) == len({row.name for row in rows}) > 600
    assert not [row.name for row in rows if "NameError" in row.there or "KeyError" in row.there]
    assert sum("Error" in row.there for row in rows) > 500
    kinds = {kind for row in rows for kind in re.findall(r"Error `([a-z-]+)`", row.there)}
    assert len(kinds) > 35


def test_every_exported_name_is_on_the_page(sections: list[Section]) -> None:
    names = {row.name for section in sections for row in section.rows}
    assert {*icechunk.__all__} - names == {"__version__"}
    assert names >= SUBMODULES


def test_every_member_of_a_class_is_on_the_page(sections: list[Section]) -> None:
    names = {row.name for section in sections for row in section.rows}
    for name in ("Repository", "Session", "IcechunkStore", "Storage", "RepositoryConfig", "Diff"):
        cls = getattr(icechunk, name)
        assert {f"{name}.{each}" for each in vars(cls) if not each.startswith("_")} <= names


def test_signatures_of_the_compiled_part_come_from_its_stub() -> None:
    condition = offer_of(
        icechunk.ManifestPreloadCondition, "num_refs", "ManifestPreloadCondition.num_refs"
    )
    assert condition is not None
    assert [each.name for each in condition.parameters or ()] == ["from_refs", "to_refs"]
    solver = offer_of(icechunk, "BasicConflictSolver", "BasicConflictSolver")
    assert solver is not None
    assert solver.parameters is not None
    assert format_call("", solver.parameters) == (
        "(*, on_chunk_conflict=VersionSelection.UseOurs, fail_on_delete_of_updated_array=False,"
        " fail_on_delete_of_updated_group=False)"
    )


# The comparison notices


class Theirs:
    class Thing:
        def __init__(self, a: int, b: int = 1) -> None:
            self.a, self.b = a, b

        def call(self, path: str, *, size: int = 3) -> None: ...
        async def call_async(self, path: str) -> None: ...
        @property
        def name(self) -> str:
            return ""


def ours(**members: Any) -> SimpleNamespace:
    return SimpleNamespace(Thing=type("Thing", (Theirs.Thing,), members))


def differences(package: Any) -> list[tuple[str, str]]:
    section = class_section(package, Theirs, "Thing")
    return [(each.name, each.text) for row in section.rows for each in row.differences]


def test_nothing_is_found_where_nothing_differs() -> None:
    assert differences(ours()) == []


@pytest.mark.parametrize(
    ("member", "replacement", "expected"),
    [
        ("call", lambda self, path: None, ("Thing.call(size)", "`size` missing")),  # noqa: ARG005 -- looked at, not called
        (
            "call",
            lambda self, path, *, size=4: None,  # noqa: ARG005 -- same
            ("Thing.call(size)", "`size` is `4` here, `3` there"),
        ),
        (
            "call",
            lambda self, path, size=3: None,  # noqa: ARG005 -- same
            ("Thing.call(size)", "`size` also by position"),
        ),
        ("call_async", lambda self, path: None, ("Thing.call_async", "is awaited there")),  # noqa: ARG005 -- same
        ("name", lambda self: "", ("Thing.name", "is a function here, an attribute there")),  # noqa: ARG005 -- same
    ],
)  # fmt: skip
def test_another_signature_is_noticed(
    member: str, replacement: object, expected: tuple[str, str]
) -> None:
    assert differences(ours(**{member: replacement})) == [expected]


def test_a_class_that_is_missing_is_missing_with_its_members() -> None:
    assert set(differences(SimpleNamespace())) == {("Thing", "missing")}
    assert len(differences(SimpleNamespace())) == 4


def test_a_missing_method_is_noticed() -> None:
    class Less:
        class Thing:
            def __init__(self, a: int, b: int = 1) -> None: ...

    names = {name for name, text in differences(Less) if text == "missing"}
    assert names == {"Thing.call", "Thing.call_async", "Thing.name"}


def test_another_order_is_noticed() -> None:
    a, b = Parameter("a"), Parameter("b")
    assert [each.name for each in compare_parameters("f", [b, a], [a, b])] == ["f"]


def test_another_value_is_noticed() -> None:
    class Ours(Enum):
        x = 1

    class Other(Enum):
        x = 2

    here, there = offer_of(Ours, "x", "E.x"), offer_of(Other, "x", "E.x")
    assert there is not None
    assert compare("E.x", here, there) == [Difference("E.x", "is 1 here, 2 there")]


def test_an_exception_with_another_base_is_noticed() -> None:
    class Error(KeyError):
        pass

    class Other:
        class Error(ValueError):
            pass

    here, there = (
        offer_of(SimpleNamespace(Error=Error), "Error", "Error"),
        offer_of(Other, "Error", "Error"),
    )
    assert there is not None
    assert [each.text for each in compare("Error", here, there)] == [
        "is BaseException, Exception, KeyError, LookupError, object here"
    ]


def test_something_called_elsewhere_is_noticed() -> None:
    there = Offer("class", (Parameter("a"),))
    assert [each.text for each in compare("C", Offer("class"), there)] == ["cannot be called"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ([Parameter("a"), Parameter("b", "1")], "f(a, b=1)"),
        ([Parameter("a"), Parameter("b", "1", by_position=False)], "f(a, *, b=1)"),
        ([Parameter("a", None, False, "*"), Parameter("b", "1", by_position=False)], "f(*a, b=1)"),
        ([Parameter("a", None, False, "**")], "f(**a)"),
    ],
)
def test_a_call_is_shown_as_python_writes_it(parameters: list[Parameter], expected: str) -> None:
    assert format_call("f", tuple(parameters)) == expected


def test_a_note_is_about_the_names_it_matches() -> None:
    note = Note(("Session.move*", "*(rebase_with)"), "later")
    assert note.is_about("Session.move_async")
    assert note.is_about("Session.commit(rebase_with)")
    assert not note.is_about("Session.commit")


def test_an_unexplained_name_and_an_idle_note_are_reported() -> None:
    found = make_parity.differences([class_section(SimpleNamespace(), Theirs, "Thing")])
    assert make_parity.unexplained(found, [Note(("Other",), "")])
    assert make_parity.unused(found, [Note(("Other", "Th*"), "")]) == ["Other"]


# The tours notice


def answered(text: str, *warned: str) -> Outcome:
    return Outcome("", None, text, warned)


def refused(error: str, kind: str | None, text: str, *is_also: str) -> Outcome:
    return Outcome(error, kind, text, is_also=is_also)


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        (answered("1"), answered("1"), ""),
        (answered("1"), answered("2"), "answer"),
        (answered("1"), answered("1", "DeprecationWarning"), "warnings"),
        (answered("1"), refused("TypeError", None, "no"), "answer"),
        (refused("TypeError", None, "no", "TypeError"), refused("TypeError", None, "non"), ""),
        (
            refused("InvalidInputError", "invalid-key", "bad key", "ValueError"),
            refused("ValueError", None, "bad key: `x`"),
            "",
        ),
        (
            refused("InvalidInputError", "invalid-key", "wrong", "ValueError"),
            refused("ValueError", None, "bad key: `x`"),
            "message",
        ),
        (
            refused("StorageError", "io", "no"),
            refused("StorageError", "object-store", "no"),
            "error",
        ),
        (
            refused("StorageError", "io", "cannot read: the disk is full"),
            refused("StorageError", "io", "session error: cannot read `x`"),
            "",
        ),
        (
            refused("StorageError", "io", "reading failed"),
            refused("StorageError", "io", "cannot read `x`"),
            "message",
        ),
    ],
)
def test_another_outcome_is_noticed(ours: Outcome, theirs: Outcome, difference: str) -> None:
    assert compare_outcomes(ours, theirs) == difference


@pytest.mark.parametrize(
    ("form", "ours", "theirs", "same"),
    [
        ("repr", "frazil.C(a=1, b=2)", "icechunk.c.C(a=1)", 1),
        ("repr", "frazil.C(b=2)", "icechunk.c.C(a=1)", 0),
        ("str", "C.x('y')", 'icechunk.config.C.x("y")', 1),
        ("str", "C.x('y')", "icechunk.config.C.z()", 0),
        ("repr", "C()", "<builtins.C object>", 1),
        ("html", "", "<div>", 0),
        ("html", "<p>", "<div>", 1),
    ],
)
def test_another_appearance_is_noticed(form: str, ours: str, theirs: str, same: int) -> None:
    assert (compare_texts(form, ours, theirs) == "") == same


def test_a_value_that_pickles_there_and_not_here_is_noticed() -> None:
    texts = dict.fromkeys(("repr", "str", "html"), "")
    pair = Pair("x", Shown(texts, "TypeError"), Shown(texts, "equal"))
    assert [form for form, _ in pair.differences()] == ["pickle"]
    assert list(Pair("x", Shown(texts, "equal"), Shown(texts, "TypeError")).differences()) == []


def test_names_that_only_frazil_has_are_listed() -> None:
    package = ModuleType("package")
    package.__dict__.update(__all__=["Thing", "extra"], Thing=ours(more=1).Thing, extra=1)
    assert "extra" in only_ours(package, ModuleType("other"))
