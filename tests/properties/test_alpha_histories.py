"""The same is done to repositories of alpha1, alpha2, versions 1 and 2: all hold the same."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.format.chunk_refs import ChunkRefs, Inline, Virtual
from frazil.format.generation import Generation
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from tests.examples_count import scaled

GENERATIONS = [Generation.ALPHA1, Generation.A2E, Generation.V1, Generation.V2]
NAMES = ["a", "a/b", "a-b", "c", "c/d/e"]
FILLS = [("int16", -3), ("float32", "NaN"), ("float64", 0.1), ("uint64", 2**64 - 1), ("bool", True)]


def metadata(size: int, kind: int, units: str) -> bytes:
    data_type, fill_value = FILLS[kind]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "attributes": {"units": units},
        "shape": [size],
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_value,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "storage_transformers": [],
    }
    return json.dumps(document).encode()


names = st.sampled_from(NAMES)
edits = st.one_of(
    st.tuples(st.just("group"), names),
    st.tuples(st.just("array"), names, st.integers(0, 9), st.integers(0, 4), st.text("mK°")),
    st.tuples(st.just("chunk"), names, st.integers(0, 4), st.binary(max_size=4)),
    st.tuples(st.just("large"), names, st.integers(0, 4)),
    st.tuples(st.just("virtual"), names, st.integers(0, 4), st.integers(0, 2**40)),
    st.tuples(st.just("delete chunk"), names, st.integers(0, 4)),
    st.tuples(st.just("delete"), names),
)  # fmt: skip
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["main", "dev"]), st.lists(edits, min_size=1, max_size=6)),
        st.tuples(st.just("reset"), st.integers(0, 5)),
    ),
    max_size=6,
)


def apply(session: Session, edit: tuple[object, ...]) -> bool:
    """Whether it could be done: what is in the way is in the way everywhere."""
    what, name, *rest = edit
    path = NodePath(f"/{name}")
    node = session.find_node(path)
    try:
        match what, rest:
            case "group", []:
                session.set_node(path, b'{"zarr_format": 3, "node_type": "group"}')
            case "array", [int(size), int(kind), str(units)]:
                session.set_node(path, metadata(size, kind, units))
            case "chunk", [int(at), bytes(data)] if node is not None:
                session.set_chunk(path, (at,), data)
            case "large", [int(at)] if node is not None:
                session.set_chunk(path, (at,), b"x" * 2000)
            case "virtual", [int(at), int(offset)] if node is not None:
                payloads = [Virtual("s3://bucket/file.nc", offset, 8)]
                session.set_chunk_refs(path, ChunkRefs.from_payloads([[at]], payloads))
            case "delete chunk", [int(at)] if node is not None:
                session.delete_chunk(path, (at,))
            case "delete", []:
                session.delete_node(path)
            case _:
                return False
    except Exception as error:
        raise AssertionError(type(error).__name__) from error
    return True


def tried(session: Session, edit: tuple[object, ...]) -> str:
    try:
        return str(apply(session, edit))
    except AssertionError as error:
        return str(error)


def content(repository: Repository, branch: str) -> dict[str, object]:
    """Everything but ids: metadata, and what each chunk is."""
    session = repository.readonly_session(Branch(branch))
    found: dict[str, object] = {}
    for node in session.nodes():
        chunks: dict[int, object] = {}
        if node.is_array:
            for refs in session.chunk_refs(node.path):
                for row, [at] in enumerate(refs.index.tolist()):
                    payload = refs.payload(row)
                    kept = isinstance(payload, Inline | Virtual)
                    chunks[at] = (
                        payload if kept else bytes(session.fetch_chunk(node.path, (at,)) or b"")
                    )
        found[node.path.text] = (json.loads(node.user_data), chunks)
    return found


def act(repository: Repository, step: tuple[object, object], number: int) -> list[str]:
    """What came of it."""
    match step:
        case "reset", int(back):
            history = [record.id for record in repository.ancestry(Branch("main"))]
            repository.reset_branch("dev", history[min(back, len(history) - 1)])
            return []
        case str(branch), list(wanted):
            session = repository.writable_session(branch)
            outcomes = [tried(session, edit) for edit in wanted]
            session.commit(f"step {number}", {"number": number}, allow_empty=True)
            return outcomes
    raise AssertionError(step)


@settings(max_examples=scaled(40))
@given(steps)
def test_all_generations_hold_the_same(done: list[tuple[object, object]]) -> None:
    made = [Repository.create(MemoryStore(), generation=each) for each in GENERATIONS]
    for repository in made:
        repository.create_branch("dev", repository.lookup_branch("main"))
    for number, step in enumerate(done):
        first, *others = [act(repository, step, number) for repository in made]
        assert all(other == first for other in others)
    *old, newest = [Repository.open(repository.store) for repository in made]
    for branch in ("main", "dev"):
        expected = content(newest, branch)
        history = [(record.message, record.metadata) for record in newest.ancestry(Branch(branch))]
        for repository in old:
            assert content(repository, branch) == expected
            found = [(each.message, each.metadata) for each in repository.ancestry(Branch(branch))]
            assert found[:-1] == history[:-1]
