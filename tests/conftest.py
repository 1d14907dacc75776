"""What every test runs under: hypothesis profiles, strict mode, an importable `tests`."""

import logging
import os
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Helper modules of the suites are imported as `tests.compat.driver` and the like, whichever way
# pytest was started.
ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

# Servers to test against, as fixtures; loaded by name so that every suite can ask for them.
pytest_plugins = ["tests.servers.plugin"]

# The reference warns on stderr whenever it opens a local directory; read when it is imported.
os.environ.setdefault("ICECHUNK_NO_LOGS", "1")

STRICT = os.environ.get("FRAZIL_STRICT", "") not in {"", "0"}

# ci: the same examples every time. local: new ones each run. deep: for a night.
SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=SLOW_IS_FINE
)
settings.register_profile("local", deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile(
    "deep",
    max_examples=2000,
    deadline=None,
    print_blob=True,
    suppress_health_check=SLOW_IS_FINE,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# Work is handed out by file, so that what a module makes is made once. Tests whose path begins with
# one of these, the longest counts, also share a process, and with it what takes long to make: a
# Spark session. There are two of about equal length, so that two processes have Spark tests to do;
# files that start programs of Spark and hardly need a session are for any process.
# By path, since xdist's own `loadgroup` marks the names of tests, which pytest 9.2 does not let it.
NATIVE = "tests/spark/test_native_"
ALIASES = {"tests/spark/pipelines/": NATIVE, "tests/spark/maintenance/": NATIVE}
TOGETHER = (
    "tests/spark/",
    NATIVE,
    *ALIASES,
    "tests/spark/test_connect.py",
    "tests/spark/test_demo.py",
    "tests/spark/cluster/",
    "tests/examples/",
    "tests/typing/",
)

# What takes long is handed out first, or one process would wait for the other in the end.
FIRST = (
    NATIVE,
    "tests/spark/",
    "tests/spark/test_connect.py",
    "tests/web/test_sql.py",
    "tests/cli/test_transcripts.py",
    "tests/compat/test_histories.py",
    "tests/spark/cluster/",
    "tests/cli/test_ingest_and_sql.py",
    "tests/examples/",
    "tests/typing/",
    "tests/compat/test_machines.py",
    "tests/docs/test_site.py",
    "tests/crash/test_killed_everywhere.py",
    "tests/crash/test_commits_killed.py",
    "tests/consistency/test_histories.py",
    "tests/soak/test_collecting_while_writing.py",
    "tests/web/test_browser.py",
    "tests/web/test_large.py",
    "tests/fuzz/test_fuzz.py",
    "tests/zarr_suite/test_stateful.py",
    "tests/verify/test_lives.py",
    "tests/servers/test_races.py",
    "tests/servers/test_bad_input.py",
    "tests/unit/facade/test_install_as_icechunk.py",
    "tests/unit/engine/test_leaps.py",
)


# What takes minutes, and has a command of its own: `make test-long`.
LONG = tuple(
    f"tests/spark/cluster/test_{name}.py"
    for name in ("connect", "equal_to_local", "local_cluster", "native", "secrets")
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(LONG):
            item.add_marker(pytest.mark.long)
    sizes = Counter(_work_unit(item.nodeid) for item in items)

    def rank(item: pytest.Item) -> tuple[int, int]:
        unit = _work_unit(item.nodeid)
        return FIRST.index(unit) if unit in FIRST else len(FIRST), -sizes[unit]

    items.sort(key=rank)


def _work_unit(nodeid: str) -> str:
    """The tests that one process runs together, by their folder or file."""
    folders = [place for place in TOGETHER if nodeid.startswith(place)]
    if not folders:
        return nodeid.partition("::")[0]
    longest = max(folders, key=len)
    return ALIASES.get(longest, longest)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Generator[None]:
    """Commands silence all logs, some tests those of frazil: in the next test all speak again."""
    logger = logging.getLogger("frazil")
    level, disabled = logger.level, logging.root.manager.disable
    yield
    logger.setLevel(level)
    logging.disable(disabled)


class _ByUnit(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    def _split_scope(self, nodeid: str) -> str:
        return _work_unit(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByUnit:
    config.option.loadscopereorder = False  # they are in order: pytest_collection_modifyitems
    return _ByUnit(config, log)


def _fail_instead_of_skipping[R: (pytest.TestReport, pytest.CollectReport)](report: R) -> R:
    if STRICT and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which strict mode forbids: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _fail_instead_of_skipping((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _fail_instead_of_skipping((yield))
