"""Nothing that a repository holds is ever executed."""

import ast
import json
import pickle
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zarr

import frazil
from frazil.errors import FormatError, IcechunkError
from frazil.format.alpha.unpacking import unpack
from frazil.format.config_yaml import decode_config_yaml
from frazil.format.payloads import Inline
from frazil.objectstore.archive import ArchiveStore
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
    ("objectstore/credentials.py", "pickle.loads"): "the user's own function, pickled by `api`",
    ("api/session.py", "pickle.loads"): "inside of a pickle",
    ("repo/session.py", "pickle.loads"): "inside of a pickle",
    ("repo/fork.py", "pickle.loads"): "inside of a pickle",
    ("spark/maintenance/verify.py", "pickle.loads"): "results of our executors",
    ("spark/maintenance/stats.py", "pickle.loads"): "results of our executors",
    ("spark/maintenance/elsewhere.py", "pickle.loads"): "results of our executors",
    ("spark/ingestion/jobs.py", "pickle.loads"): "results of our executors",
    ("format/config_yaml.py", "yaml.load"): "with a loader of plain values",
    ("cli/views/files.py", "np.load"): "with allow_pickle=False, of the user's file",
    ("spark/java.py", "subprocess.run"): "java -version",
    ("cli/map_blocks.py", "importlib.import_module"): "the module that the user names",
    ("cli/loading.py", "import_module"): "a command of frazil",
    ("__init__.py", "import_module"): "a module of frazil",
    ("api/actions.py", "import_module"): "a module of frazil",
    ("compatibility.py", "import_module"): "a module of frazil",
    ("xarray.py", "import_module"): "a module of frazil",
    ("spark/lazily.py", "import_module"): "a module of frazil",
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
        with pytest.raises(IcechunkError):
            read_all(root)
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
    with pytest.raises(FormatError):
        decode_config_yaml(text.format(trap=trap).encode())
    assert not trap.exists()


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
    with pytest.raises((ValueError, KeyError)):
        zarr.open_array(store, path="v", mode="r")[:]
    assert not trap.exists()


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


@pytest.mark.parametrize("key", ESCAPING, ids=range(len(ESCAPING)))
def test_an_archive_cannot_be_unpacked_outside(tmp_path: Path, key: str) -> None:
    """Neither is such a key accepted when one is made, nor when one is imported."""
    with pytest.raises(IcechunkError):
        require_key(key)
    made = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "r")))
    bundle = tmp_path / "evil.frazil"
    made.export_bundle(bundle)
    name = b"snapshots/1CECHNKREP0F1RSTCMT0"
    data = bundle.read_bytes()
    assert data.count(name) == 2  # in the header of the member, and in the index
    bundle.write_bytes(data.replace(name, key.encode().ljust(len(name), b"x")))
    target = tmp_path / "a" / "b" / "target"
    storage = frazil.local_filesystem_storage(str(target))
    with pytest.raises(IcechunkError):
        frazil.Repository.import_bundle(bundle, storage)
    assert not (tmp_path / "outside").exists()
    written = {path for path in tmp_path.rglob("*") if path.is_file()} - {bundle}
    assert all({target, tmp_path / "r"}.intersection(path.parents) for path in written)
    store = ArchiveStore(bundle)
    with pytest.raises(IcechunkError):
        store.get(key)


def test_an_archive_is_what_tar_unpacks_safely(tmp_path: Path) -> None:
    made = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "r")))
    made.export_bundle(tmp_path / "b.frazil")
    with tarfile.open(tmp_path / "b.frazil") as archive:
        archive.extractall(tmp_path / "out", filter="data")
    assert (tmp_path / "out" / "repo").exists()
