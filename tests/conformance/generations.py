"""Repositories of the generations before version 1: the archives, and what is in them."""

import json
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "fixtures" / "generations"
ARCHIVES = sorted(path.name.removesuffix(".tar.gz") for path in FOLDER.glob("*.tar.gz"))


@dataclass(frozen=True, slots=True)
class Expected:
    """Of one branch or tag: messages from the newest, values by array, None where not told."""

    messages: list[str] | None
    arrays: dict[str, "ExpectedArray"]


@dataclass(frozen=True, slots=True)
class ExpectedArray:
    first_values: list[str]  # in order, as many as are told
    dtype: str | None = None
    shape: tuple[int, ...] | None = None


@cache
def content(name: str) -> dict[str, bytes]:
    """Files by path below the repository, and what describes it under its own name."""
    with tarfile.open(FOLDER / f"{name}.tar.gz") as packed:
        found = {
            member.name.partition("/")[2]: opened.read()
            for member in packed.getmembers()
            if member.isfile() and (opened := packed.extractfile(member)) is not None
        }
    return {
        path if path.endswith((".json",)) and "/" not in path else path.partition("/")[2]: data
        for path, data in found.items()
    }


def repository_files(name: str) -> dict[str, bytes]:
    return {
        path: data
        for path, data in content(name).items()
        if path not in {"manifest.json", "expected.json"}
    }


def put(files: dict[str, bytes], root: Path) -> Path:
    for path, data in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return root


def description(name: str) -> dict[str, Any]:
    """Branches, tags, and deleted tags."""
    files = content(name)
    if "expected.json" in files:
        found: dict[str, Any] = json.loads(files["expected.json"])
        return {"deleted_tags": [], **found}
    repos = json.loads(files["manifest.json"])["repos"]
    [only] = repos.values()
    described: dict[str, Any] = only
    return described


def expectations(name: str) -> dict[str, Expected]:
    """By `branch:NAME` or `tag:NAME`."""
    about = description(name)
    if "refs" in about:
        return {
            ref: Expected(
                [told["message"], *told["history"]],
                {
                    path: ExpectedArray(each["first_values"], each["dtype"], tuple(each["shape"]))
                    for path, each in told["arrays"].items()
                },
            )
            for ref, told in about["refs"].items()
        }
    return {
        f"branch:{branch}": Expected(
            about["history"].get(branch),
            {path: ExpectedArray(_flat(values)) for path, values in arrays.items()},
        )
        for branch, arrays in about["arrays"].items()
    }


def _flat(values: Any) -> list[str]:
    if isinstance(values, list) and values and isinstance(values[0], list):
        if all(len(each) == 2 and type(each[0]) is int for each in values):
            return [str(complex(*each)) for each in values]  # only the complex array has pairs
        return [text for each in values for text in _flat(each)]
    return [str(each) for each in (values if isinstance(values, list) else [values])]
