"""Eight processes commit to one local repository: none of their commits is lost."""

import importlib
from pathlib import Path

import icechunk
import numpy as np
import pytest
import zarr

from tests.crash import committer

COMMITS_EACH = 5


@pytest.mark.parametrize("spec_version", [1, 2])
def test_every_reported_commit_is_in_the_history(tmp_path: Path, spec_version: int) -> None:
    committer.create(tmp_path, spec_version=spec_version)
    context = committer.processes()
    running = [
        committer.start(context, tmp_path, i, first_value=1, count=COMMITS_EACH)
        for i in range(committer.COMMITTERS)
    ]
    for process in running:
        process.join(timeout=300)
    assert [process.exitcode for process in running] == [0] * committer.COMMITTERS

    engine = importlib.import_module(committer.ENGINE)
    repo = engine.Repository.open(committer.storage(engine, tmp_path))
    reported = {report.snapshot for report in committer.reports(tmp_path)}
    history = [info.id for info in repo.ancestry(branch="main")]
    assert len(reported) == committer.COMMITTERS * COMMITS_EACH
    assert reported - set(history) == set()
    assert len(history) == len(reported) + 2  # nothing else was committed

    committer.assert_history_explains_array(repo)
    reference = icechunk.Repository.open(committer.storage(icechunk, tmp_path))
    assert [info.id for info in reference.ancestry(branch="main")] == history
    final = zarr.open_array(reference.readonly_session("main").store, path="a", mode="r")
    np.testing.assert_array_equal(np.asarray(final[:]), COMMITS_EACH)
