"""Nothing that a repository holds is ever executed."""

import ast
import json
import pickle
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import FormatError, InvalidInputError
from frazil.format.chunk_refs import Inline
from frazil.format.config_codec import decode_config_yaml
from frazil.generations.msgpack_values import unpack
from frazil.objectstore.archive import ABOUT, ArchiveStore, ArchiveWriter
from frazil.objectstore.keys import require_key
from tests.hostile.strangers import PATH, stranger

SOURCE = Path(frazil.__file__).parent
# Calls that execute what they are given, and the only places that may make them: pickles that this
# process or its workers made, modules that the user or frazil itself names, and a loader of YAML
# that knows plain values only.
DANGEROUS = {
    "pickle.load", "pickle.loads", "pickle.Unpickler", "cloudpickle.loads", "cloudpickle.load",
    "marshal.loads", "marshal.load", "shelve.open", "dill.loads", "joblib.load",
    "yaml.load", "yaml.full_load", "yaml.unsafe_load", "yaml.load_all",
    "eval", "exec", "compile", "__import__", "import_module", "importlib.import_module",
    "os.system", "os.popen", "subprocess.run", "subprocess.Popen", "subprocess.check_output",
    "numpy.load", "np.load", "runpy.run_path", "runpy.run_module", "code.interact",
}  # fmt: skip
ALLOWED = {
    ("testing/__main__.py", "importlib.import_module"): "the store that the caller names",
    ("objectstore/credentials.py", "pickle.loads"): "the user's own function, pickled by `api`",
    ("dataclass.py", "compile"): "templates of methods, in which no name is given",
    ("api/session.py", "pickle.loads"): "inside of a pickle",
    ("engine/session/session.py", "pickle.loads"): "inside of a pickle",
    ("engine/session/fork.py", "pickle.loads"): "inside of a pickle",
    ("spark/runtime/executor.py", "pickle.loads"): "results of our executors",
    ("spark/runtime/stored_refs.py", "pickle.loads"): "references of our executors",
    ("format/config_codec.py", "yaml.load"): "with a loader of plain values",
    ("cli/views/values_view.py", "np.load"): "with allow_pickle=False, of the user's file",
    ("cli/output.py", "subprocess.run"): "the pager that the user's environment names, no shell",
    ("spark/runtime/java.py", "subprocess.run"): "java -version",
    ("spark/native/jar.py", "subprocess.run"): "java, which compiles the sources of the package",
    ("cli/pipelines.py", "importlib.import_module"): "the module that the user names",
    ("compatibility.py", "import_module"): "a module of frazil",
    ("lazy.py", "import_module"): "a module of frazil",
    ("engine/refs/entries.py", "import_module"): "frazil.generations",
}


def called(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{called(value)}.{name}"
    return ""


def dangerous_calls(source: str) -> set[str]:
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {name for node in calls if (name := called(node.func)) in DANGEROUS}


def parsed() -> Iterator[tuple[str, str]]:
    """Files of frazil that have one of the words in them at all."""
    words = re.compile(rf"(?<!re\.)\b(?:{'|'.join(map(re.escape, sorted(DANGEROUS)))})\(")
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if words.search(text):
            yield str(path.relative_to(SOURCE)), text


def test_only_known_places_call_what_executes() -> None:
    found = {(path, name) for path, text in parsed() for name in dangerous_calls(text)}
    assert len(found) > 10
    assert found - ALLOWED.keys() == set()


def test_the_scan_can_fail() -> None:
    assert dangerous_calls("import pickle\nx = pickle.loads(data)") == {"pickle.loads"}
    assert dangerous_calls("eval(text)") == {"eval"}


def test_names_that_execute_are_not_imported_under_others() -> None:
    """`from pickle import loads` would pass the scan above unseen."""
    hidden = r"(?:pickle|marshal|yaml|cloudpickle|subprocess|runpy)"
    other = re.compile(rf"^\s*(?:from {hidden}\b|import {hidden} as\b)", re.MULTILINE)
    assert other.search("from pickle import loads")
    for path in SOURCE.rglob("*.py"):
        assert other.search(path.read_text()) is None, path


class Execute:
    """A pickle that makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def read_all(root: Path) -> None:
    opened = frazil.Repository.open(frazil.local_filesystem_storage(str(root)))
    opened.readonly_session("main").engine.fetch_chunk(PATH, (0,))
    opened.diff(from_snapshot_id="1CECHNKREP0F1RSTCMT0", to_branch="main")


def test_a_pickle_in_the_place_of_any_file_is_not_read(tmp_path: Path) -> None:
    trap = tmp_path / "made"
    payload = pickle.dumps(Execute(trap))
    for number, name in enumerate(("repo", "snapshots", "manifests", "transactions")):
        root = stranger(tmp_path / str(number), Inline(b"x"))
        files = [root / name] if name == "repo" else list((root / name).iterdir())
        for file in files:
            file.write_bytes(payload)
        with pytest.raises(FormatError, match="not an icechunk file"):
            read_all(root)
    read_all(stranger(tmp_path / "fine", Inline(b"x")))
    assert not trap.exists()
    pickle.loads(payload)  # the trap works
    assert trap.exists()


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:pathlib.Path.touch [{trap}]",
        "!!python/object/new:pathlib.Path [{trap}]",
        "!!python/name:os.system",
        "a: !!python/module:os",
        "!<tag:yaml.org,2002:python/object/apply:os.system> [touch {trap}]",
    ],
)
def test_yaml_makes_values_and_nothing_else(tmp_path: Path, text: str) -> None:
    trap = tmp_path / "made"
    with pytest.raises(FormatError, match="could not determine a constructor"):
        decode_config_yaml(text.format(trap=trap).encode())
    assert not trap.exists()
    assert decode_config_yaml(b"a: [1, text]") == {"a": [1, "text"]}


def test_messagepack_has_no_types_of_others() -> None:
    """They stay a number and bytes, which nothing in a repository is."""
    assert unpack(b"\xc7\x05\x01hello") == (1, b"hello")


@pytest.mark.parametrize(
    "name", ["pickle", "numcodecs.pickle", "numcodecs.json2", "os.system", "numcodecs.msgpack2"]
)
def test_an_array_cannot_name_a_codec_that_executes(tmp_path: Path, name: str) -> None:
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [1], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
        "codecs": [{"name": "bytes"}, {"name": name}],
    }  # fmt: skip
    trap = tmp_path / "made"
    made = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "r")))
    session = made.writable_session("main")
    session.engine.set_node(PATH, json.dumps(document).encode())
    session.engine.set_chunk(PATH, (0,), pickle.dumps(Execute(trap)))
    session.commit("a trap")
    store = made.readonly_session("main").store
    with pytest.raises((ValueError, KeyError), match=name):
        zarr.open_array(store, path="v", mode="r")[:]
    assert not trap.exists()
    document["codecs"] = [{"name": "bytes"}]  # with codecs that there are, it is an array
    session = made.writable_session("main")
    session.engine.set_node(PATH, json.dumps(document).encode())
    session.engine.set_chunk(PATH, (0,), b"x")
    read = zarr.open_array(session.store, path="v", mode="r")[:]
    assert np.asarray(read).tolist() == [ord("x")]


EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"


def test_names_and_messages_are_escaped_in_html_and_svg(tmp_path: Path) -> None:
    made = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "r")))
    session = made.writable_session("main")
    zarr.create_group(session.store, path=EVIL.replace("/", ""), attributes={EVIL: EVIL})
    session.commit(EVIL, {EVIL: EVIL})
    made.create_branch(EVIL.replace("/", "").replace("<", "(")[:20], made.lookup_branch("main"))
    shown = [
        each._repr_html_()
        for each in (made, session, *made.ancestry(branch="main"), made.config)
        if hasattr(each, "_repr_html_")
    ]
    graph = made.ancestry_graph(branch="main")
    shown.append(graph._repr_svg_())
    assert any("&lt;script&gt;" in text for text in shown)
    for text in shown:
        assert "<script>" not in text
        assert "<img" not in text


ESCAPING = ("../outside", "/etc/outside", "a/../../outside", "a//b")


def with_key(bundle: Path, path: Path, key: str) -> Path:
    """The archive with one more object, whatever its key: a stranger's program checks nothing."""
    source = ArchiveStore(bundle)
    with (
        patch("frazil.objectstore.archive.require_key"),
        ArchiveWriter(path, source.about()) as archive,
    ):
        for info in source.list():
            if info.key != ABOUT:
                archive.put(info.key, source.get(info.key).data)
        archive.put(key, b"escaped")
    return path


@pytest.mark.parametrize("key", ESCAPING, ids=range(len(ESCAPING)))
def test_an_archive_cannot_be_unpacked_outside(tmp_path: Path, key: str) -> None:
    """Neither is such a key accepted when one is made, nor when one is imported."""
    with pytest.raises(InvalidInputError, match="not a key"):
        require_key(key)
    require_key("a/outside")
    made = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "r")))
    made.export_bundle(tmp_path / "bundle")
    bundle = with_key(tmp_path / "bundle", tmp_path / "evil", key)
    assert key in [info.key for info in ArchiveStore(bundle).list()]
    with pytest.raises(InvalidInputError, match="not a key"):
        ArchiveStore(bundle).get(key)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    target = tmp_path / "a" / "b" / "target"
    storage = frazil.local_filesystem_storage(str(target))
    try:
        frazil.Repository.import_bundle(bundle, storage)
    except InvalidInputError as error:
        assert "not a key" in str(error)  # noqa: PT017 -- or it is left out, as no snapshot names it
    written = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert all(target in path.parents for path in written)
    assert not any(path.read_bytes() == b"escaped" for path in written)


def test_an_archive_with_an_innocent_key_more_is_imported(tmp_path: Path) -> None:
    """The control of the test above: nothing but the key is wrong there."""
    made = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "r")))
    made.export_bundle(tmp_path / "bundle")
    bundle = with_key(tmp_path / "bundle", tmp_path / "more", "chunks/0000000000000000000G")
    storage = frazil.local_filesystem_storage(str(tmp_path / "target"))
    frazil.Repository.import_bundle(bundle, storage)
    assert frazil.Repository.open(storage).list_branches() == {"main"}


def test_an_archive_is_what_tar_unpacks_safely(tmp_path: Path) -> None:
    made = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "r")))
    made.export_bundle(tmp_path / "b.frazil")
    with tarfile.open(tmp_path / "b.frazil") as archive:
        archive.extractall(tmp_path / "out", filter="data")
    assert (tmp_path / "out" / "repo").exists()
