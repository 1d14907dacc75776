"""Goals of the project: how many times better than the reference, at least."""

from typing import Final

type Row = tuple[str, str, str]
"""Workload, phase, measure."""

TIME, MEMORY = "seconds", "added_bytes"

TARGETS: Final[dict[Row, float]] = {
    ("virtual_refs", "set + commit", TIME): 4,
    ("virtual_refs", "set + commit", MEMORY): 4,
    ("virtual_refs", "scan: array_chunk_iterator", TIME): 3,
    ("virtual_refs_columns", "set + commit", TIME): 8,
    ("append_refs", "1000 more of them set, committed", TIME): 10,
    ("merge_forks", "merge + commit", TIME): 8,
    ("commits_300", "20 commits", TIME): 1.2,
    ("commits_300", "ancestry", TIME): 1,
    ("commits_300", "20 tags", TIME): 1,
    ("commits_10000", "20 commits", TIME): 2,
    ("commits_10000", "ancestry", TIME): 1,
    ("commits_10000", "20 tags", TIME): 1,
    ("thousand_arrays", "1000 arrays made with zarr", TIME): 1.3,
    ("thousand_arrays", "1000 arrays committed", TIME): 1,
    ("thousand_arrays", "members of a group of 1000", TIME): 1.2,
    ("raw_chunks", "write", TIME): 6,
    ("raw_chunks", "open + read", TIME): 8,
    ("foreign_chunks", "open + read", TIME): 4,
    ("zstd_chunks", "write + commit", TIME): 1.5,
    ("zstd_chunks", "open + read", TIME): 3,
    ("large_chunks", "write + commit", TIME): 1,
    ("large_chunks", "open + read", TIME): 3,
    ("single_elements", "50 times: open + one element", TIME): 1,
    ("single_elements", "200 elements, one by one", TIME): 1.5,
    ("import_time", "import", TIME): 3,
}


def missed(ratios: dict[Row, float]) -> list[str]:
    """A line for each target among the measured ratios that was not reached."""
    return [
        f"{workload} / {phase}: {measure} {ratios[workload, phase, measure]:.2f}x, at least"
        f" {wanted:g}x was wanted"
        for (workload, phase, measure), wanted in TARGETS.items()
        if ratios.get((workload, phase, measure), wanted) < wanted
    ]
