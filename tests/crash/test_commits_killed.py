"""Processes killed at random moments: what they reported is there, the rest is whole."""

import importlib
import random
import time
from pathlib import Path

import icechunk
import pytest

from tests.crash import committer

# It goes on until enough has happened, which on a busy machine takes longer.
KILLS = 30
REPORTS = 30
DEADLINE_S = 300.0
PAUSE_S = (0.0, 0.3)
NEVER_ENDING = 10**6


def kill_and_restart(root: Path, rng: random.Random) -> None:
    """Keeps all committers running, killing one after another at random moments."""
    context = committer.processes()
    running = {
        i: committer.start(context, root, i, first_value=1, count=NEVER_ENDING)
        for i in range(committer.COMMITTERS)
    }
    kills = 0
    deadline = time.monotonic() + DEADLINE_S
    while kills < KILLS or len(committer.reports(root)) < REPORTS:
        assert time.monotonic() < deadline, "hardly a commit was made between the kills"
        time.sleep(rng.uniform(*PAUSE_S))
        victim = rng.choice(list(running))
        assert running[victim].exitcode is None, "a committer ended by itself"
        running[victim].kill()
        running[victim].join()
        kills += 1
        # Values of a new life do not repeat those of the former, even if these were not reported.
        running[victim] = committer.start(
            context, root, victim, first_value=kills * NEVER_ENDING, count=NEVER_ENDING
        )
    for process in running.values():
        process.kill()
        process.join()


@pytest.mark.parametrize("spec_version", [1, 2])
def test_what_was_reported_before_the_kill_is_there(tmp_path: Path, spec_version: int) -> None:
    committer.create(tmp_path, spec_version=spec_version)
    kill_and_restart(tmp_path, random.Random(2024))
    reported = {report.snapshot for report in committer.reports(tmp_path)}

    engine = importlib.import_module(committer.ENGINE)
    repo = engine.Repository.open(committer.storage(engine, tmp_path))
    history = [info.id for info in repo.ancestry(branch="main")]
    assert reported - set(history) == set()
    committer.assert_history_explains_array(repo)

    reference = icechunk.Repository.open(committer.storage(icechunk, tmp_path))
    assert [info.id for info in reference.ancestry(branch="main")] == history
    committer.assert_history_explains_array(reference)

    # No lock, temporary file or half-made commit is in the way of the next one.
    committer.commit_value(engine, repo, 0, 7)
    committer.commit_value(icechunk, reference, 1, 8)
    committer.assert_history_explains_array(
        engine.Repository.open(committer.storage(engine, tmp_path))
    )
