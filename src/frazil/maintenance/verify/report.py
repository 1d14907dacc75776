"""The report of a verification."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from frazil.maintenance.verify.manifest_checks import RefCounts
from frazil.maintenance.verify.problems import Problem, Severity


@dataclass(frozen=True, slots=True)
class Unreferenced:
    """Unreachable files: no problem, garbage collection deletes them."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VerifyReport:
    """`problems` are worst first. `unreferenced` is by folder."""

    spec_version: int | None
    problems: tuple[Problem, ...]
    snapshots: int = 0
    manifests: int = 0
    refs: RefCounts = field(default_factory=RefCounts)
    files: int = 0
    total_bytes: int = 0
    unreferenced: Mapping[str, Unreferenced] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.problems)

    @property
    def ok(self) -> bool:
        """True if there is no error."""
        return not self.errors

    @property
    def errors(self) -> list[Problem]:
        return self.of(Severity.ERROR)

    @property
    def warnings(self) -> list[Problem]:
        return self.of(Severity.WARNING)

    @property
    def notes(self) -> list[Problem]:
        return self.of(Severity.NOTE)

    @property
    def kinds(self) -> dict[str, int]:
        """The number of chunks or rows with each kind of problem."""
        counts = Counter[str]()
        for each in self.problems:
            counts[each.kind] += each.count
        return dict(counts)

    def of(self, severity: Severity) -> list[Problem]:
        return [each for each in self.problems if each.severity is severity]
