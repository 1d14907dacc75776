"""Repair: planned from a report, executed, and verified again.

Manifests first, then the snapshots that list them, then logs, which are worked out from both, and
the entry point last. What was there before is kept beside the backups of the repo info, under
`overwritten/damaged.`: nothing is lost by a repair.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from frazil.clock import Clock, system_clock
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import CONFIG_YAML, MANIFESTS, REPO_INFO
from frazil.engine.files.settings import Settings
from frazil.errors import ConflictError, PreconditionFailedError, ReadOnlyError, StorageError
from frazil.format.config import RepositoryConfig
from frazil.maintenance.executor import Progress, ThreadExecutor, disable_caches
from frazil.maintenance.repair.repair_entry import plan_config_yaml, plan_repo_info
from frazil.maintenance.repair.repair_files import plan_logs, plan_manifest, plan_snapshots
from frazil.maintenance.repair.repair_steps import RepairPlan, RepairStep, execute_step, find_blob
from frazil.maintenance.verify.older_generations import open_old
from frazil.maintenance.verify.problems import Problem, Severity
from frazil.maintenance.verify.report import VerifyReport
from frazil.maintenance.verify.verify_store import plan_verify, unopened_files, verify
from frazil.objectstore.protocol import Blob, ObjectStore

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
        """Problems that are left; in a dry run, those that no step would solve."""
        return self.after.problems


def plan_repair(store: ObjectStore, report: VerifyReport) -> RepairPlan:
    """Plans repairs for the problems of a report. Reads, and writes nothing.

    The entry point may have changed since the report: it is read, then looked at once more, so
    that what is found is true of what was read, or it is replaced by now and no step is taken.
    """
    kinds_of: dict[str, set[str]] = {}
    for each in report.problems:
        kinds_of.setdefault(each.place.file, set()).add(each.kind)
    found = {key: _read(store, key) for key in (REPO_INFO, CONFIG_YAML)}
    plan = plan_verify(store)
    for key in found:
        kinds_of[key] = {each.kind for each in plan.problems if each.place.file == key}
    if open_old(store, plan.problems) is not None:  # migrate it first: such files are not written
        return RepairPlan((), tuple(_unsolved_problems(report.problems, ())))
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
    for key, plan_file in ((REPO_INFO, plan_repo_info), (CONFIG_YAML, plan_config_yaml)):
        blob = found[key]
        if not isinstance(blob, StorageError):  # what cannot be read cannot be compared with
            steps += plan_file(store, plan.listing, blob, kinds_of[key])
    steps = [step for step in steps if not _is_done(store, step)]
    return RepairPlan(tuple(steps), tuple(_unsolved_problems(report.problems, steps)))


def repair(
    store: ObjectStore,
    *,
    dry_run: bool = False,
    clock: Clock = system_clock,
    progress: Progress | None = None,
) -> RepairResult:
    """Verifies, repairs what can be, and verifies again.

    Where another client has changed a file since, the repair is planned again from what is there.
    Raises ConflictError if that goes on.
    """
    if not dry_run and not store.writable:
        raise ReadOnlyError("the storage is read-only", kind="read-only-storage")
    executor = ThreadExecutor(unopened_files(store), progress)
    before = verify(store, executor)
    plan = plan_repair(store, before)
    if dry_run:
        return RepairResult(before, plan.steps, (), replace(before, problems=plan.left))
    steps, kept, report = list[RepairStep](), list[str](), before
    changed: PreconditionFailedError | None = None
    for _ in range(_ROUNDS):
        if not plan.steps:
            break
        changed = None
        try:
            for step in plan.steps:
                copy = execute_step(store, step, clock)
                steps.append(step)
                kept += [] if copy is None else [copy]
        except PreconditionFailedError as error:
            changed = error
        report = verify(store, executor)
        plan = plan_repair(store, report)
    if plan.steps and changed is not None:
        raise ConflictError(
            message=f"{changed.key} is changed by others again and again: nothing was repaired"
            " there"
        ) from changed
    return RepairResult(before, tuple(steps), tuple(kept), report)


def _read(store: ObjectStore, key: str) -> Blob | StorageError | None:
    try:
        return find_blob(store, key)
    except StorageError as error:
        return error


def _is_done(store: ObjectStore, step: RepairStep) -> bool:
    """True if the file is what it would become: then another file causes the problem."""
    try:
        return bytes(store.get(step.key).data) == step.data
    except StorageError:
        return False


def _files(store: ObjectStore, spec_version: int) -> Files:
    return disable_caches(Files(store, Settings.of(RepositoryConfig(), spec_version=spec_version)))


def _unsolved_problems(problems: Iterable[Problem], steps: Iterable[RepairStep]) -> list[Problem]:
    solved = {(step.key, kind) for step in steps for kind in step.kinds}
    return [
        each
        for each in problems
        if each.severity is not Severity.NOTE and (each.place.file, each.kind) not in solved
    ]
