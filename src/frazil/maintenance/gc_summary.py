"""What a collection of garbage did, with Icechunk's name. Light: it is among the public names."""

from dataclasses import dataclass, field

from frazil.format.records import Displayed


@dataclass(frozen=True, slots=True, kw_only=True)
class GCSummary(Displayed):
    """What a collection of garbage deleted, or in a dry run would delete.

    If deleting files of one kind failed, kinds that come later are left for the next time and
    named in `skipped_phases`. The last four fields are frazil's own.
    """

    bytes_deleted: int = 0
    chunks_deleted: int = 0
    manifests_deleted: int = 0
    snapshots_deleted: int = 0
    attributes_deleted: int = 0
    transaction_logs_deleted: int = 0
    objects_failed_to_delete: int = 0
    throttled_batches: int = 0
    delete_errors: list[str] = field(default_factory=list)
    skipped_phases: list[str] = field(default_factory=list)
    backups_deleted: int = 0
    branches_deleted: int = 0
    temporary_files_deleted: int = 0
    peak_memory_bytes: int = 0  # of the sets of ids

    __hash__ = None  # type: ignore[assignment]  # it has lists in it
