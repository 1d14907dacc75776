"""What goes away where sources replace a part of a group."""

from collections.abc import Sequence

import numpy as np

from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.spark.ingestion.plan import IngestPlan
from frazil.spark.ingestion.tasks import TaskResult


def drop_replaced(
    session: Session, group: NodePath, plan: IngestPlan, results: Sequence[TaskResult]
) -> None:
    """Chunks of the region that were there, and of which nothing is left but the fill value."""
    for position, tiling in zip(plan.work, plan.tilings, strict=True):
        path = group.child(plan.layout.arrays[position].name)
        new = {
            tuple(row)
            for result in results
            if result.array == position
            for row in result.refs.index.tolist()
        }
        first, end = np.array(tiling.first), np.array(tiling.grid)
        for refs in session.chunk_refs(path):
            inside = ((refs.index >= first) & (refs.index < end)).all(axis=1)
            for row in refs.index[inside].tolist():
                if tuple(row) not in new:
                    session.delete_chunk(path, tuple(row))
