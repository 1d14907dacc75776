"""zarr's own state machines, run on frazil's store."""

import json

import pytest
from hypothesis import HealthCheck, assume, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from zarr.core.buffer import cpu
from zarr.testing.stateful import ZarrHierarchyStateMachine, ZarrStoreStateMachine
from zarr.testing.strategies import short_node_names

from frazil import IcechunkStore, Repository, in_memory_storage
from tests.examples_count import scaled

SETTINGS = settings(
    max_examples=scaled(20),
    stateful_step_count=30,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def new_store() -> IcechunkStore:
    return Repository.create(in_memory_storage()).writable_session("main").store


class Hierarchy(ZarrHierarchyStateMachine):
    """As zarr wrote it, with commits in between: what is read may be pending or committed."""

    store: IcechunkStore

    def __init__(self) -> None:
        self.repository = Repository.create(in_memory_storage())
        super().__init__(self.repository.writable_session("main").store)

    @rule()
    def commit(self) -> None:
        note("commit, and go on in another session")
        self.store.session.commit("step", allow_empty=True)
        self.store = self.repository.writable_session("main").store


def array_document(ndim: int) -> bytes:
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [3] * ndim,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1] * ndim}},
    }
    return json.dumps(document).encode()


class Keys(ZarrStoreStateMachine):
    """zarr's machine over keys and values, restricted to those a Zarr hierarchy has.

    As it comes, it sets any value under any key. Icechunk keeps Zarr version 3 hierarchies only, so
    these three rules choose keys and values of one; a chunk goes below an array that is there, and
    with a node goes all that is below it. Reading, listing and all invariants are zarr's.
    """

    def __init__(self) -> None:
        super().__init__(new_store())
        self.ndims: dict[str, int | None] = {}  # by path; None: a group

    @rule(name=short_node_names, data=st.data(), ndim=st.none() | st.integers(0, 2))
    def set(self, name: str, data: st.DataObject, ndim: int | None) -> None:
        groups = [path for path, dims in self.ndims.items() if dims is None]
        parent = data.draw(st.sampled_from(["", *sorted(groups)]))
        path = f"{parent}/{name}".removeprefix("/")
        assume(path not in self.ndims)
        self.ndims[path] = ndim
        group = b'{"zarr_format": 3, "node_type": "group"}'
        self._set(f"{path}/zarr.json", group if ndim is None else array_document(ndim))

    @precondition(lambda self: any(ndim is not None for ndim in self.ndims.values()))
    @rule(data=st.data(), value=st.binary(min_size=1, max_size=100) | st.just(bytes(2000)))
    def set_chunk(self, data: st.DataObject, value: bytes) -> None:
        arrays = {path: ndim for path, ndim in self.ndims.items() if ndim is not None}
        path = data.draw(st.sampled_from(sorted(arrays)))
        index = data.draw(st.tuples(*[st.integers(0, 2)] * arrays[path]))
        self._set("/".join([path, "c", *map(str, index)]), value)

    @precondition(lambda self: len(self.model) > 0)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        note(f"(delete) {key=}")
        self.store.delete(key)
        if key.endswith("zarr.json"):
            node = key.removesuffix("zarr.json")
            self.model = {k: v for k, v in self.model.items() if not k.startswith(node)}
            self.ndims = {p: n for p, n in self.ndims.items() if not f"{p}/".startswith(node)}
        else:
            del self.model[key]

    @rule()
    def clear(self) -> None:
        super().clear()
        self.ndims.clear()

    def _set(self, key: str, value: bytes) -> None:
        note(f"(set) {key=} {value!r}")
        self.store.set(key, cpu.Buffer.from_bytes(value))
        self.model[key] = cpu.Buffer.from_bytes(value)


@pytest.mark.parametrize("machine", [Hierarchy, Keys])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_the_store_agrees_with_zarrs_model(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(machine, settings=SETTINGS)
