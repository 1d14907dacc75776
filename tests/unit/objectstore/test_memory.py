import gc
import pickle
import subprocess
import sys

import pytest

from frazil.errors import StorageError
from frazil.objectstore import Counting, MemoryStore, Prefixed
from frazil.testing.objectstore import content


def test_a_pickle_in_the_same_process_is_the_same_store() -> None:
    store = MemoryStore()
    wrapped = Prefixed(Counting(store), "p")
    again = pickle.loads(pickle.dumps(wrapped))
    again.put("a", b"x")
    assert content(store, "p/a") == b"x"
    assert pickle.loads(pickle.dumps(store)) is store


def test_a_pickle_does_not_outlive_the_store() -> None:
    pickled = pickle.dumps(MemoryStore())
    gc.collect()
    with pytest.raises(StorageError, match="cannot leave its process"):
        pickle.loads(pickled)


def test_another_process_is_told_why_it_cannot_have_the_store() -> None:
    store = MemoryStore()
    script = (
        "import pickle, sys\n"
        "from frazil.errors import StorageError\n"
        "try:\n"
        "    pickle.load(sys.stdin.buffer)\n"
        "except StorageError as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(store), capture_output=True, check=True
    )
    assert b"an in-memory store cannot leave its process" in ended.stdout


def test_a_forked_child_cannot_have_it_either() -> None:
    script = (
        "import os, pickle, sys\n"
        "from frazil.errors import StorageError\n"
        "from frazil.objectstore import MemoryStore\n"
        "store = MemoryStore()\n"
        "pickled = pickle.dumps(store)\n"
        "if not os.fork():\n"
        "    try:\n"
        "        pickle.loads(pickled)\n"
        "    except StorageError:\n"
        "        os._exit(0)\n"
        "    os._exit(1)\n"
        "sys.exit(os.wait()[1])\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_equal_content_written_again_has_a_new_version() -> None:
    store = MemoryStore()
    assert store.put("a", b"x") != store.put("a", b"x")


def test_the_clock_is_an_argument() -> None:
    store = MemoryStore(clock=lambda: 42)
    store.put("a", b"")
    assert store.head("a").modified_at_us == 42
