"""The plan of a rechunk, for programs and for people."""

from typing import Any

from frazil.cli.output import print_table
from frazil.spark.pipelines.rechunk_plan import RechunkPlan


def plan_as_json(plan: RechunkPlan) -> dict[str, Any]:
    return {
        "dry_run": True,
        "snapshot": plan.snapshot,
        "bytes": plan.size_bytes,
        "arrays": [
            {
                "path": one.source.text,
                "into": one.target.text,
                "shape": list(one.cut.shape),
                "chunks": list(one.layout.chunks or ()),
                "shards": None if one.layout.shards is None else list(one.layout.shards),
                "codecs": [codec["name"] for codec in one.layout.codecs],
                "bytes": one.size_bytes,
                "tasks": len(one.cut),
            }
            for one in plan.rewrites
        ],
        "unchanged": [one.target.text for one in plan.copies],
    }


def print_plan(plan: RechunkPlan) -> None:
    if not plan.rewrites and not plan.copies:
        print("nothing to do")
        return
    arrays = plan_as_json(plan)["arrays"]
    rows = [
        [
            one["into"],
            _lengths(one["shape"]),
            _lengths(one["chunks"]),
            _lengths(one["shards"] or ["-"]),
            " ".join(one["codecs"]),
            f"{one['bytes'] / 1e6:.1f}",
            one["tasks"],
        ]
        for one in arrays
    ]
    print_table(["array", "shape", "chunks", "shards", "codecs", "MB", "tasks"], rows)


def _lengths(lengths: list[Any]) -> str:
    return " x ".join(map(str, lengths))
