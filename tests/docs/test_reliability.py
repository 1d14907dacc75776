"""docs/reliability.md: its block runs, its table is what the code does, its tests exist.

All of it takes half an hour (`make reliability`); here a sample of every kind of row is run.
"""

import re
from pathlib import Path

import pytest

from frazil.objectstore import LocalStore
from scripts.make_reliability import ANY, HARD, LOCAL, S3, WIRE
from tests.crash.power import failures, losses
from tests.crash.suffering import ERRNOS, KINDS, Victim, every

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
TABLE = PAGE.partition("<!-- table -->")[2].partition("<!-- end of table -->")[0]


def test_the_block_runs() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(block, "docs/reliability.md", "exec"), {"__name__": "page"})  # noqa: S102 -- our own


ROWS = {
    (cells[0].strip(), cells[1].strip()): (int(cells[2]), int(cells[3]))
    for line in TABLE.splitlines()[2:]
    if line.startswith("| ") and (cells := line.split("|")[1:-1])[2].strip().isdigit()
}  # trials and losses by fault and store


def test_nothing_was_lost_in_many_trials() -> None:
    assert len(ROWS) > 40
    assert [row for row, (trials, lost) in ROWS.items() if not trials or lost] == []


def test_every_fault_that_can_be_tried_is_in_the_table() -> None:
    expected = {(kind, store) for kind in KINDS for store in (ANY, LOCAL)}
    expected |= {(f"{name}, at a system call", LOCAL) for name in ERRNOS}
    expected |= {(name, S3) for name in WIRE}
    expected |= {(text, LOCAL) for text in ("SIGKILL at a system call", POWER, RACE, RANDOM)}
    expected |= {(text, S3) for text in ("SIGKILL at a request", RANDOM, BOTH)}
    assert ROWS.keys() == expected


POWER, RACE = "power failure (simulated disk)", "8 processes commit at once"
RANDOM = "random history of 11 processes, by events"
BOTH = "frazil and icechunk commit at once"


@pytest.fixture(scope="module", params=[ANY, LOCAL])
def victims(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[Victim]]:
    folder = tmp_path_factory.mktemp("disks") if request.param == LOCAL else None
    return request.param, [Victim(name, folder and folder / name) for name in HARD]


def test_the_trials_are_the_moments_that_there_are(victims: tuple[str, list[Victim]]) -> None:
    """So the table is of this code, or of one whose operations take about as many requests."""
    store, hard = victims
    moments = sum(victim.requests for victim in hard)
    for kind in KINDS:
        assert ROWS[kind, store][0] == pytest.approx(moments, rel=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_of_the_store_loses_as_much_as_the_table_says(
    victims: tuple[str, list[Victim]], kind: str
) -> None:
    store, hard = victims
    victim = hard[[*KINDS].index(kind) % len(hard)]
    outcomes = [victim.suffer(KINDS[kind], number) for number in every(victim.requests, 3)]
    assert any(outcome.hit for outcome in outcomes)
    assert sum(bool(outcome.problem) for outcome in outcomes) == ROWS[kind, store][1], outcomes


@pytest.mark.parametrize("name", ERRNOS)
def test_an_error_of_the_disk_loses_as_much_as_the_table_says(tmp_path: Path, name: str) -> None:
    victim = Victim("refs", tmp_path)
    code, says = ERRNOS[name]
    outcomes = [
        victim.suffer_locally(code, says, number, times=1)
        for number in every(victim.count_calls(), 3)
    ]
    lost = ROWS[f"{name}, at a system call", LOCAL][1]
    assert sum(bool(outcome.problem) for outcome in outcomes) == lost, outcomes


def test_a_power_failure_loses_as_much_as_the_table_says(tmp_path: Path) -> None:
    states, left = failures("refs", tmp_path)
    assert len(left) < ROWS[POWER, LOCAL][0]
    chosen = [left[number] for number in every(len(left), 5)]
    assert [*losses("refs", states, chosen, tmp_path)] == []
    assert ROWS[POWER, LOCAL][1] == 0


def test_the_sample_can_fail(tmp_path: Path) -> None:
    """Without a single fsync a power failure takes what was reported."""
    states, left = failures("refs", tmp_path, lambda path: LocalStore(path, fsync=False))
    assert [*losses("refs", states, left[-1:], tmp_path)] != []


def test_the_tests_it_names_are_there() -> None:
    folder = Path()
    for name in re.findall(r"`((?:tests/[\w/]+/)?\w+\.py)`", PAGE):
        folder = (ROOT / name).parent if "/" in name else folder
        assert (ROOT / name if "/" in name else folder / name).exists(), name


def test_the_modules_it_names_are_there() -> None:
    kit = ROOT / "src" / "frazil" / "testing"
    named = set(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE))
    found = {name for group in named for name in re.findall(r"\w+", group)}
    there = {path.stem for path in kit.glob("*.py")} - {"__init__", "loopback"}
    assert there <= found
