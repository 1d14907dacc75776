"""Values and descriptions of arrays, in words and as JSON."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.assets.virtual.access import NOBODY
from frazil.cli.output import print_json
from frazil.cli.repositories import chosen_version, open_repository
from frazil.cli.views.selected import Selected, select, texts_of
from frazil.format.payloads import RefKind
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.spark.access import AccessText, parse_access


def open_session(
    repo: str,
    branch: str | None,
    tag: str | None,
    snapshot: str | None,
    authorize: Sequence[str],
) -> Session:
    """For reading; `authorize` are words such as file:///data/=local."""
    version = chosen_version(branch=branch, tag=tag, snapshot=snapshot)
    words = dict(one.rpartition("=")[::2] for one in authorize)
    access = parse_access(AccessText(json.dumps(words))) if words else NOBODY
    return open_repository(repo).reopened(access=access).readonly_session(version)


def print_group(session: Session, path: NodePath) -> None:
    print_json(json.loads(session.node(path).user_data).get("attributes", {}))


def print_values(chosen: Selected, *, as_json: bool) -> None:
    values = chosen.values(decoded=True)
    if as_json:
        along = chosen.coordinates()
        print_json(
            {
                "path": chosen.array.path,
                "dims": list(chosen.array.dims),
                "coords": {name: _plain(each) for name, each in along.items()},
                "values": _plain(values),
            }
        )
        return
    for line in _lines(chosen.squeezed(values)):
        print(line)


def _lines(values: npt.NDArray[Any]) -> list[str]:
    """A line is a row of the last dimension; an empty one stands between planes."""
    texts = texts_of(values)
    if texts.ndim < 2:
        return ["\t".join(np.atleast_1d(texts))]
    lines = list[str]()
    for plane in texts.reshape(-1, *texts.shape[-2:]):
        if lines:
            lines.append("")
        lines += ["\t".join(row) for row in plane]
    return lines


def _plain(values: npt.NDArray[Any]) -> Any:
    """Of JSON: no NaN, times as text."""
    if values.dtype.kind == "f":
        kept = values.astype(object)
        kept[~np.isfinite(values)] = None
        return kept.tolist()
    return values.tolist() if values.dtype.kind in "biuUT" else texts_of(values).tolist()


def print_head(session: Session, path: NodePath, count: int, *, as_json: bool) -> None:
    facts = _facts(session, path)
    part = _corner(session, path, facts["shape"], count)
    values = part.values(decoded=False)
    if as_json:
        print_json({**facts, "values": _plain(values)})
        return
    dims = facts["dimension_names"] or [None] * len(facts["shape"])
    sizes = ", ".join(
        str(size) if name is None else f"{name}: {size}"
        for name, size in zip(dims, facts["shape"], strict=True)
    )
    stored = ", ".join(f"{n} {kind}" for kind, n in facts["stored_chunks"].items() if n)
    lines = {
        "array": f"{path}  ({sizes}) {facts['data_type']}",
        "chunks": f"{tuple(facts['chunks'])}; stored: {stored or 'none'}",
        "codecs": " ".join(facts["codecs"]),
        "fill value": json.dumps(facts["fill_value"]),
    }
    lines |= {f"  {name}": json.dumps(value) for name, value in facts["attributes"].items()}
    for name, text in lines.items():
        print(f"{name:<12}{text}")
    print()
    for line in _lines(part.squeezed(values)):
        print(line)


def _facts(session: Session, path: NodePath) -> dict[str, Any]:
    metadata = json.loads(session.node(path).user_data)
    grid = metadata.get("chunk_grid", {}).get("configuration", {})
    kinds = dict.fromkeys(RefKind, 0)
    for refs in session.chunk_refs(path):
        for kind in RefKind:
            kinds[kind] += int(np.count_nonzero(refs.kind == kind))
    return {
        "path": path.text,
        "shape": metadata["shape"],
        "dimension_names": metadata.get("dimension_names"),
        "data_type": metadata["data_type"],
        "chunks": grid.get("chunk_shape", metadata["shape"]),
        "codecs": [
            codec["name"] if isinstance(codec, dict) else codec for codec in metadata["codecs"]
        ],
        "fill_value": metadata.get("fill_value"),
        "stored_chunks": {kind.name.lower(): count for kind, count in kinds.items()},
        "attributes": metadata.get("attributes", {}),
    }


def _corner(session: Session, path: NodePath, shape: Sequence[int], count: int) -> Selected:
    """Of the first plane the first values."""
    whole = select(session, path, {}, {})
    if not all(shape):
        return whole
    dims = whole.array.dims
    first: dict[str, object] = dict.fromkeys(dims[:-2], 0)
    return select(session, path, {}, first | dict.fromkeys(dims[-2:], slice(0, count)))
