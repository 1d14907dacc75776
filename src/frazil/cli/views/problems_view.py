"""Problems of a repository as commands show them."""

from typing import Any

from frazil.api.repository import Repository
from frazil.api.storage import Storage
from frazil.api.virtual_access import GivenAccess, access_of
from frazil.cli.options import count_of
from frazil.cli.output import progress_bar, require_consent
from frazil.cli.repositories import store_at
from frazil.errors import IcechunkError
from frazil.format.storage_config import LocalStoreConfig
from frazil.maintenance.repair.repair_store import RepairResult
from frazil.maintenance.verify.problems import Problem, Severity
from frazil.maintenance.verify.report import VerifyReport
from frazil.objectstore.credentials import LocalFileSystemAccess


def run_verify(
    location: str, *, decode: bool, virtual: bool, on_spark: bool = False
) -> VerifyReport:
    storage = Storage(store_at(location))
    access = _local_access(storage) if virtual or decode else None
    if on_spark:
        return _verified_on_spark(storage, access, decode=decode, virtual=virtual)
    with progress_bar() as tell:
        return Repository.verify_storage(
            storage, access, decode=decode, virtual=virtual, progress=tell
        )


def _verified_on_spark(
    storage: Storage, access: GivenAccess, *, decode: bool, virtual: bool
) -> VerifyReport:
    from frazil.cli.on_spark import spark_session
    from frazil.spark.actions.verify import verify_store
    from frazil.spark.runtime.access import format_access

    spark, leave = spark_session("verify"), access_of(access, storage)
    return verify_store(
        spark, storage.store, format_access(leave), decode=decode, virtual=virtual
    ).report


def _local_access(storage: Storage) -> GivenAccess:
    """Grants access to containers on local disks, which need no credentials."""
    try:
        config = Repository.fetch_config(storage)
    except IcechunkError:
        return None
    containers = {} if config is None else config.virtual_chunk_containers or {}
    return {
        container.url_prefix: LocalFileSystemAccess()
        for container in containers.values()
        if isinstance(container.store, LocalStoreConfig)
    }


def run_repair(location: str, *, dry_run: bool, consent: bool) -> tuple[VerifyReport, RepairResult]:
    """Reports the problems that remain after the repair, or would remain."""
    storage = Storage(store_at(location))
    with progress_bar() as tell:
        planned = Repository.repair_storage(storage, dry_run=True, progress=tell)
    if not planned.steps:
        return planned.before, planned
    if dry_run:
        return planned.after, planned
    replaced = count_of(len(planned.steps), "file")
    require_consent(f"replace {replaced} of {location}", given=consent)
    done = Repository.repair_storage(storage)
    return done.after, done


def as_json(report: VerifyReport, result: RepairResult | None, *, dry_run: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "ok": report.ok,
        "spec_version": report.spec_version,
        "snapshots": report.snapshots,
        "manifests": report.manifests,
        "stored_chunks": {
            "native": report.refs.native,
            "inline": report.refs.inline,
            "virtual": report.refs.virtual,
        },
        "files": report.files,
        "size_bytes": report.total_bytes,
        "unreferenced": {
            folder.rstrip("/"): {"files": each.files, "size_bytes": each.bytes}
            for folder, each in report.unreferenced.items()
        },
        "problems": [_problem_as_json(each) for each in report.problems],
    }
    if result is not None:
        shown["dry_run"] = dry_run
        shown["repairs"] = [
            {"file": step.key, "kinds": list(step.kinds), "text": step.text}
            for step in result.steps
        ]
        shown["kept"] = list(result.kept)
    return shown


def _problem_as_json(each: Problem) -> dict[str, Any]:
    chunk = each.place.chunk
    return {
        "severity": str(each.severity),
        "kind": each.kind,
        "file": each.place.file,
        "path": each.place.node,
        "chunk_index": None if chunk is None else list(chunk),
        "text": each.text,
        "count": each.count,
        "repairable": each.repairable,
    }


def print_text(report: VerifyReport, result: RepairResult | None, *, dry_run: bool) -> None:
    if result is not None:
        for step in result.steps:
            print(f"{'would repair' if dry_run else 'run_repair'}: {step}")
        for key in result.kept:
            print(f"kept: {key}")
    for each in report.problems:
        print(each)
    refs = report.refs
    print(
        f"{count_of(report.snapshots, 'snapshot')}, {count_of(report.manifests, 'manifest')},"
        f" {count_of(refs.refs, 'chunk ref')}"
        f" ({refs.native} native, {refs.inline} inline, {refs.virtual} virtual)"
    )
    found = {severity: len(report.of(severity)) for severity in Severity}
    named = [
        f"{count} {severity}{'s' * (count != 1)}" for severity, count in found.items() if count
    ]
    good = "nothing would be left" if result is not None and dry_run else "nothing is wrong"
    print(", ".join(named) or good)
