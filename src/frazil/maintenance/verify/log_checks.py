"""A transaction log: its own order, and whether it tells what happened to the nodes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.ragged import even_length
from frazil.flatbuf.table import Table
from frazil.format.chunk_index import is_ascending
from frazil.format.transaction_log import NODE_LISTS
from frazil.ids import INITIAL_SNAPSHOT, format_base32
from frazil.maintenance.verify.column_checks import check_texts, descents, id_keys, repeats
from frazil.maintenance.verify.file_reader import OpenedFile, check_id
from frazil.maintenance.verify.node_checks import NodeFacts
from frazil.maintenance.verify.problems import Problem, problem

type Keys = npt.NDArray[np.uint64]  # node ids as numbers

_OF_KIND = {
    "group": ("new_groups", "deleted_groups", "updated_groups"),
    "array": ("new_arrays", "deleted_arrays", "updated_arrays"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """The nodes after the commit and, where they are known, those before it."""

    after: NodeFacts | None
    before: NodeFacts | None
    amended: bool = False  # whether the commit, or what it was amended to, was made in steps


def check_log(opened: OpenedFile, around: Around, problems: list[Problem]) -> None:
    key, root = opened.key, opened.root
    check_id(opened, problems)
    lists = {name: id_keys(root.vector(name).values) for name in NODE_LISTS}
    chunks, moves = root.tables("updated_chunks").rows, root.tables("moved_nodes").rows
    if key.endswith(str(INITIAL_SNAPSHOT)):
        if any(map(len, lists.values())) or len(chunks) or len(moves):
            text = "it lists changes of a repository that is new"
            problems.append(problem("log-initial-not-empty", key, text))
        return
    problems += _check_lists(key, lists, amended=around.amended)
    problems += _check_chunks(opened, chunks, around)
    if opened.spec_version == 1 and len(moves):
        problems.append(problem("log-moves-version", key, f"{len(moves)} moves"))
    problems += _check_moves(key, moves, around)
    if around.after is not None:
        lasting = _drop_transient_nodes(lists) if around.amended else lists
        problems += _check_nodes(key, lasting, moves, around.after, around.before)


def _drop_transient_nodes(lists: dict[str, Keys]) -> dict[str, Keys]:
    """Without nodes that one step of an amended commit made and another deleted."""
    gone = np.concatenate([lists["deleted_groups"], lists["deleted_arrays"]])
    new = np.concatenate([lists["new_groups"], lists["new_arrays"]])
    fleeting = np.intersect1d(new, gone)
    return {name: np.setdiff1d(ids, fleeting) for name, ids in lists.items()}


def _check_lists(key: str, lists: dict[str, Keys], *, amended: bool) -> list[Problem]:
    problems = []
    for name, ids in ((name, ids) for name, ids in lists.items() if len(ids)):
        for row in descents(ids)[:1].tolist():
            text = f"`{name}` has {_node(ids[row])} after {_node(ids[row - 1])}"
            problems.append(problem("log-nodes-unsorted", key, text))
    if not any(map(len, lists.values())):
        return problems
    for names in _OF_KIND.values():
        for name in names:
            for row in repeats(lists[name])[:1].tolist():
                text = f"`{name}` has {_node(lists[name][row])} twice"
                problems.append(problem("log-node-repeated", key, text))
        if amended:  # leaves nodes that are new and updated, even new and deleted
            continue
        both = np.concatenate([np.unique(lists[name]) for name in names])
        for row in repeats(both)[:1].tolist():
            places = [name for name in names if both[row] in lists[name]]
            text = f"{_node(both[row])} is in {' and '.join(f'`{name}`' for name in places)}"
            problems.append(problem("log-node-repeated", key, text))
    return problems


def _check_chunks(opened: OpenedFile, arrays: Table, around: Around) -> list[Problem]:
    problems, key = [], opened.key
    # Version 1 asks for no order: 1.1 with split manifests wrote them manifest by manifest.
    disorder = "log-chunks-unsorted" if opened.spec_version >= 2 else "log-chunks-in-old-order"
    ids = id_keys(arrays.struct("node_id").values)
    if len(descents(ids)) or len(repeats(ids)):
        text = "the arrays are not in ascending order of id"
        problems.append(problem(disorder, key, text))
    chunks = arrays.tables("chunks")
    coords = chunks.rows.vector("coords")
    dimensions = _dimensions(around)
    for row, node in enumerate(ids.tolist()):
        splits = coords.splits[int(chunks.splits[row]) : int(chunks.splits[row + 1]) + 1]
        ndim = even_length(splits)
        name, known = _node(node), dimensions.get(node)
        if len(splits) == 1:
            continue
        if ndim is None:
            text = f"indices of {name} differ in length"
            problems.append(problem("log-dimensions", key, text))
            continue
        if known is not None and ndim not in known:
            text = f"indices of {name} have {ndim} numbers, the array {sorted(known)} dimensions"
            problems.append(problem("log-dimensions", key, text))
        values = coords.values[int(splits[0]) : int(splits[-1])].reshape(len(splits) - 1, ndim)
        if not is_ascending(values):
            text = f"chunks of {name} are not in ascending order"
            problems.append(problem(disorder, key, text))
    return problems


def _dimensions(around: Around) -> dict[int, set[int]]:
    """Numbers of dimensions of each array before and after, by node id."""
    found: dict[int, set[int]] = {}
    for nodes in (around.after, around.before):
        if nodes is not None:
            rows = np.flatnonzero(nodes.is_array)
            keys = id_keys(nodes.ids[rows]).tolist()
            for node, ndim in zip(keys, nodes.ndim[rows].tolist(), strict=True):
                found.setdefault(node, set()).add(ndim)
    return found


def _check_moves(key: str, moves: Table, around: Around) -> list[Problem]:
    if not len(moves):
        return []
    problems = check_texts(key, {"from": moves.string("from"), "to": moves.string("to")})
    sources = [path or b"" for path in moves.string("from").to_list()]
    targets = [path or b"" for path in moves.string("to").to_list()]
    ids = id_keys(moves.struct("node_id").values).tolist()
    components = [path.split(b"/") for path in targets]
    if components != sorted(components):
        problems.append(problem("log-moves-unsorted", key, "not in order of `to`, by component"))
    before = None if around.before is None else _ids_by_path(around.before)
    after = None if around.after is None else _ids_by_path(around.after)
    for source, target, node in zip(sources, targets, ids, strict=True):
        where = target.decode("utf-8", "replace")
        came = source.decode("utf-8", "replace")
        if source == target:
            text = "moved from where it is"
        elif after is not None and after.get(target) != node:
            text = f"{_node(node)} is listed as moved there, and is not there"
        elif before is not None and before.get(source) != node:
            text = f"{_node(node)} is listed as moved from {came}, and was not there"
        elif before is not None and target in before and target not in set(sources):
            if before[target] not in _deleted_nodes(around):
                text = "moved onto a node that was there"
            else:
                continue
        else:
            continue
        problems.append(problem("log-move-invalid", key, text, node=where))
    return problems


def _deleted_nodes(around: Around) -> set[int]:
    """Nodes that are gone after the commit."""
    if around.after is None or around.before is None:
        return set()
    return {*id_keys(around.before.ids).tolist()} - {*id_keys(around.after.ids).tolist()}


def _check_nodes(
    key: str, lists: dict[str, Keys], moves: Table, after: NodeFacts, before: NodeFacts | None
) -> list[Problem]:
    if not len(moves) and not any(map(len, lists.values())) and _same_nodes(after, before):
        return []  # chunks were written, as in most commits
    problems = []
    here = id_keys(after.ids)
    for sort, (new, deleted, _) in _OF_KIND.items():
        mine = here[after.is_array] if sort == "array" else here[~after.is_array]
        for node in np.setdiff1d(lists[new], mine)[:1].tolist():
            text = f"`{new}` has {_node(node)}, which is no {sort} of the snapshot"
            problems.append(problem("log-unknown-node", key, text))
        for node in np.intersect1d(lists[deleted], here)[:1].tolist():
            text = f"`{deleted}` has {_node(node)}, which is still there"
            problems.append(problem("log-unknown-node", key, text))
    if before is None:
        return problems
    known = np.concatenate([here, id_keys(before.ids)])
    # Deleted ones need not be there: a path that was purged is deleted once more, to be noticed.
    for name, ids in ((name, ids) for name, ids in lists.items() if "deleted" not in name):
        for node in np.setdiff1d(ids, known)[:1].tolist():
            text = f"`{name}` has {_node(node)}, which is neither there before nor after"
            problems.append(problem("log-unknown-node", key, text))
    return problems + _check_complete(key, lists, moves, after, before)


def _check_complete(
    key: str, lists: dict[str, Keys], moves: Table, after: NodeFacts, before: NodeFacts
) -> list[Problem]:
    """Checks that the log has all nodes that were added, deleted or moved."""
    here, there = id_keys(after.ids), id_keys(before.ids)
    new = np.concatenate([lists["new_groups"], lists["new_arrays"]])
    gone = np.concatenate([lists["deleted_groups"], lists["deleted_arrays"]])
    problems = [
        problem("log-incomplete", key, f"{_node(node)} is {what}")
        for changed, listed, what in (
            (np.setdiff1d(here, there), new, "new"),
            (np.setdiff1d(there, here), gone, "gone"),
        )
        for node in np.setdiff1d(changed, listed)[:1].tolist()
    ]
    moved = {*id_keys(moves.struct("node_id").values).tolist()}
    paths = _paths_by_id(before)
    for node, path in _paths_by_id(after).items():
        if paths.get(node, path) != path and node not in moved:
            text = f"{_node(node)} was at {paths[node].decode('utf-8', 'replace')}"
            where = path.decode("utf-8", "replace")
            problems.append(problem("log-incomplete", key, text, node=where))
    return problems


def _same_nodes(after: NodeFacts, before: NodeFacts | None) -> bool:
    if before is None:
        return True
    return after.paths == before.paths and np.array_equal(after.ids, before.ids)


def _ids_by_path(nodes: NodeFacts) -> dict[bytes, int]:
    return dict(zip(nodes.paths, id_keys(nodes.ids).tolist(), strict=True))


def _paths_by_id(nodes: NodeFacts) -> dict[int, bytes]:
    return dict(zip(id_keys(nodes.ids).tolist(), nodes.paths, strict=True))


def _node(key: int) -> str:
    return f"node {format_base32(int(key).to_bytes(8, 'big'))}"
