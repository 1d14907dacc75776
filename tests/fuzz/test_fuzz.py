"""Every decoder, damaged input by damaged input: refused as it says, or read; and what once was
neither. `make fuzz` goes on for longer, and follows which branches are reached."""

import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples_count import scaled
from tests.fuzz import seeds
from tests.fuzz.mutation import mutations
from tests.fuzz.run import NAMES
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
SECONDS = 0.5  # of processor time for each target
AT_LEAST = 30  # inputs, on the slowest machine
SLOWEST_S = 10.0  # of processor time, which is longer on a busy machine, one input may take


def test_every_target_has_a_name_and_seeds() -> None:
    assert set(NAMES) == set(TARGETS)
    for name, target in TARGETS.items():
        found = target.seeds()
        assert found, name
        assert any(_is_read(name, seed) for seed in found), name


def _is_read(name: str, seed: bytes) -> bool:
    try:
        TARGETS[name].read(seed)
    except TARGETS[name].allowed:
        return False
    return True


def test_the_fixtures_are_among_the_seeds() -> None:
    assert {"snapshots", "manifests", "transactions", "config.yaml"} <= set(seeds.archived())


@pytest.mark.parametrize("name", NAMES)
def test_damaged_input_is_refused_or_read(name: str) -> None:
    """The same inputs each time, as many of them as there is time for."""
    target, random = TARGETS[name], Random(name)
    found = list(target.seeds())
    sources = [mutations(seed, found, random) for seed in found]
    target.attempt(found[0])  # what is imported when first needed takes seconds by itself
    end, tried = time.process_time() + SECONDS, 0
    while tried < AT_LEAST or time.process_time() < end:
        data = next(random.choice(sources))
        before = time.process_time()
        target.attempt(data)
        assert time.process_time() - before < SLOWEST_S
        tried += 1


@pytest.mark.parametrize("name", NAMES)
def test_cut_off_and_random_input_is_refused_or_read(name: str) -> None:
    target, random = TARGETS[name], Random(name)
    whole = min(target.seeds(), key=len)
    for stop in range(0, len(whole), 1 + len(whole) // 50):
        target.attempt(whole[:stop])
    for _ in range(50):
        target.attempt(random.randbytes(random.randint(0, 200)))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=scaled(20))
@given(data=st.data())
def test_edited_input_is_refused_or_read(name: str, data: st.DataObject) -> None:
    """What hypothesis makes of the seeds: it looks for the smallest that fails."""
    seed = data.draw(st.sampled_from(sorted(TARGETS[name].seeds(), key=len)))
    edited = bytearray(seed)
    places = st.integers(0, len(seed))
    for at, new in data.draw(st.lists(st.tuples(places, st.binary(max_size=8)), max_size=4)):
        edited[at : at + len(new)] = new
    TARGETS[name].attempt(bytes(edited))


def test_the_same_seed_damages_in_the_same_way() -> None:
    one, two = (list(islice(mutations(b"abc" * 9, [b"xyz"], Random(5)), 20)) for _ in range(2))
    assert one == two
    assert len(set(one)) > 15


# What was found, smallest first: each was raised as the error in the comment.
FOUND = {
    "config_yaml": [
        b'a: !!int ""',  # IndexError
        b'a: !!float "_"',  # IndexError
        b'a: !!bool "x"',  # KeyError
        b'a: !!timestamp "x"',  # AttributeError
        b"!<tag:yaml.org,2002:int> ''",  # IndexError
    ],
    "kerchunk": [
        b'{"version":1,"gen":5,"refs":{}}',  # TypeError
        b'{"version":1,"gen":[{"key":"a","url":"b","dimensions":{"i":{"stop":1'
        + b"0" * 20
        + b"}}}]}",
        b'{"version":1,"templates":{"u":"x"},"refs":{"a/0":["{{'
        + b"*".join([b"9" * 4000] * 3)
        + b'}}",0,1]}}',  # ValueError
    ],
    "inventory": [
        b"key,size,last_modified\n\xff,1,2\n",  # UnicodeDecodeError
        b"key,size,last_modified\nx,1\n",  # IndexError
        b"key,size,last_modified\nchunks/VY76P925PRY57WFEK410,x,1\n",  # ValueError
        b"key,size,last_modified\nchunks/VY76P925PRY57WFEK410,1,1700000000000000000000\n",
    ],
    "url": [b"file:///\xa5", b"file:?x#\xf9"],  # UnicodeEncodeError
}


@pytest.mark.parametrize(
    ("name", "data"),
    [(name, data) for name, every in FOUND.items() for data in every],
    ids=[f"{name}-{at}" for name, every in FOUND.items() for at in range(len(every))],
)
def test_what_once_escaped_is_refused(name: str, data: bytes) -> None:
    with pytest.raises(TARGETS[name].allowed):
        TARGETS[name].read(data)


def fuzzed(folder: Path, name: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    pytest.importorskip("atheris", reason="the fuzzer is not for this platform")
    command = [sys.executable, "-m", "tests.fuzz.run", "--folder", str(folder), "--one", name]
    return subprocess.run(
        [*command, "--", "-seed=1", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_the_fuzzer_finds_a_decoder_that_trusts_what_it_reads(tmp_path: Path) -> None:
    done = fuzzed(tmp_path, "planted", "-runs=200000")
    assert done.returncode != 0
    assert "IndexError" in done.stdout + done.stderr
    assert list((tmp_path / "planted").glob("crash-*"))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_fuzzer_finds_nothing_in_a_few_seconds(tmp_path: Path, name: str) -> None:
    done = fuzzed(tmp_path, name, "-max_total_time=5")
    assert done.returncode == 0, done.stderr[-2000:]
    assert list((tmp_path / name / "corpus").iterdir())
