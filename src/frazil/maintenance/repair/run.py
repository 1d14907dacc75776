"""A repair: planned from a report, carried out, and looked at again.

Manifests first, then the snapshots that list them, then logs, which are worked out from both, and
the entry point last. What was there before is kept beside the backups of the repo info, under
`overwritten/damaged.`: nothing is lost by a repair.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from frazil.assets.files import Files
from frazil.assets.layout import CONFIG_YAML, MANIFESTS, REPO_INFO
from frazil.assets.old_layout import inner_store
from frazil.assets.settings import Settings
from frazil.clock import Clock, system_clock
from frazil.errors import ReadOnlyError, StorageError
from frazil.format.config import RepositoryConfig
from frazil.maintenance.progress import Progress
from frazil.maintenance.quiet_files import quietened
from frazil.maintenance.repair.entry import plan_config_yaml, plan_repo_info
from frazil.maintenance.repair.logs import plan_logs
from frazil.maintenance.repair.manifests import plan_manifest
from frazil.maintenance.repair.snapshots import plan_snapshots
from frazil.maintenance.repair.steps import RepairPlan, RepairStep, execute_steps
from frazil.maintenance.verify.kinds import Severity
from frazil.maintenance.verify.old import open_old
from frazil.maintenance.verify.problems import Problem
from frazil.maintenance.verify.report import VerifyReport
from frazil.maintenance.verify.run import plan_verify, verify
from frazil.objectstore.protocol import ObjectStore

_ROUNDS = 3  # with a repo info back in its place, more is found


@dataclass(frozen=True, slots=True, eq=False)
class RepairResult:
    """`steps` were taken, or would be in a dry run; `kept` are copies of what they replaced."""

    before: VerifyReport
    steps: tuple[RepairStep, ...]
    kept: tuple[str, ...]
    after: VerifyReport  # the same as before in a dry run

    @property
    def left(self) -> tuple[Problem, ...]:
        """What is still wrong; in a dry run, what no step would solve."""
        return self.after.problems


def plan_repair(store: ObjectStore, report: VerifyReport) -> RepairPlan:
    """What can be done about the problems of a report. Reads, and writes nothing."""
    kinds_of: dict[str, set[str]] = {}
    for each in report.problems:
        kinds_of.setdefault(each.place.file, set()).add(each.kind)
    plan = plan_verify(store)
    if open_old(store, plan.problems) is not None:  # migrate it first: nobody writes these
        return RepairPlan((), tuple(_left(report.problems, ())))
    of_repo, of_config = kinds_of.get(REPO_INFO, set()), kinds_of.get(CONFIG_YAML, set())
    steps: list[RepairStep] = []
    for key, kinds in kinds_of.items():
        if key.startswith(MANIFESTS):
            steps += plan_manifest(store, key, kinds)
    manifests = {step.key: step.data for step in steps}
    names = [task.name for task in plan.entry.tasks]
    steps += plan_snapshots(store, names, kinds_of, manifests)
    if plan.entry.is_complete:
        files = _files(store, plan.entry.spec_version or 2)
        steps += plan_logs(files, plan.entry.tasks, kinds_of)
    steps += plan_repo_info(store, plan.listing, of_repo)
    steps += plan_config_yaml(store, plan.listing, of_config)
    steps = [step for step in steps if not _is_done(store, step)]
    return RepairPlan(tuple(steps), tuple(_left(report.problems, steps)))


def repair(
    store: ObjectStore,
    *,
    dry_run: bool = False,
    clock: Clock = system_clock,
    progress: Progress | None = None,
) -> RepairResult:
    """Verifies, repairs what can be, and verifies again."""
    if not dry_run and not store.writable:
        raise ReadOnlyError("the storage is read-only", kind="read-only-storage")
    store = inner_store(store)
    before = verify(store, progress=progress)
    plan = plan_repair(store, before)
    if dry_run:
        return RepairResult(before, plan.steps, (), replace(before, problems=plan.left))
    steps, kept, report = list[RepairStep](), list[str](), before
    for _ in range(_ROUNDS):
        if not plan.steps:
            break
        kept += execute_steps(store, plan.steps, clock)
        steps += plan.steps
        report = verify(store, progress=progress)
        plan = plan_repair(store, report)
    return RepairResult(before, tuple(steps), tuple(kept), report)


def _is_done(store: ObjectStore, step: RepairStep) -> bool:
    """Whether the file is what it would become: then the problem is another's fault."""
    try:
        return bytes(store.get(step.key).data) == step.data
    except StorageError:
        return False


def _files(store: ObjectStore, spec_version: int) -> Files:
    return quietened(Files(store, Settings.of(RepositoryConfig(), spec_version=spec_version)))


def _left(problems: Iterable[Problem], steps: Iterable[RepairStep]) -> list[Problem]:
    solved = {(step.key, kind) for step in steps for kind in step.kinds}
    return [
        each
        for each in problems
        if each.severity is not Severity.NOTE and (each.place.file, each.kind) not in solved
    ]
