"""Labels of requests: what the reference takes is taken, what it refuses is refused."""

import icechunk
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil

pytestmark = pytest.mark.compat
TEXTS = st.one_of(
    st.text(max_size=6),
    st.text(alphabet="ab0/ -._~!()\\;=\"'@:,{}", max_size=6),
    st.sampled_from(["", "weatherlib/0.9", "a/", "/a", "a/b/c", "é", "a" * 128, "a" * 129]),
)


def is_taken(package: object, name: str, text: str) -> bool:
    try:
        made = getattr(package, "Attribution")(**{name: text})  # noqa: B009 -- of either package
    except ValueError:
        return False
    assert getattr(made, name) == text
    return True


@given(name=st.sampled_from(["client", "workload", "principal"]), text=TEXTS)
def test_both_take_the_same_labels(name: str, text: str) -> None:
    assert is_taken(frazil, name, text) == is_taken(icechunk, name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [("client", "a" * 129), ("workload", "a;b"), ("principal", "a" * 129)],
)
def test_a_refusal_says_the_same(name: str, text: str) -> None:
    messages = []
    for package in (frazil, icechunk):
        with pytest.raises(ValueError, match=name) as caught:
            package.Attribution(**{name: text})
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_labels_are_text() -> None:
    for package in (frazil, icechunk):
        with pytest.raises(TypeError):
            package.Attribution(workload=1)


async def test_a_repository_keeps_its_labels() -> None:
    for package in (frazil, icechunk):
        labels = package.Attribution(client="weatherlib/0.9", workload="nightly")
        storage = package.in_memory_storage()
        made = package.Repository.create(storage, attribution=labels)
        opened = package.Repository.open(storage, attribution=labels)
        either = package.Repository.open_or_create(storage, attribution=labels)
        later = await package.Repository.open_async(storage, attribution=labels)
        for repo in (made, opened, either, later, made.reopen()):
            assert repo.attribution == labels
        assert package.Repository.open(storage).attribution == package.Attribution()
