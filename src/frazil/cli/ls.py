"""`frazil ls`: what is in a group."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Branch, Repo, Snapshot, Tag


def ls(
    repo: Repo,
    path: Annotated[str, typer.Argument(help="A group, or an array.")] = "/",
    *,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    as_json: AsJson = False,
) -> None:
    """List what is in a group. `frazil tree` shows all that is below it."""
    from frazil.cli.output import print_json, print_table
    from frazil.cli.repositories import chosen_version, open_repository
    from frazil.cli.views.tree import node_as_json, node_as_row, nodes_below
    from frazil.paths import NodePath

    version = chosen_version(branch=branch, tag=tag, snapshot=snapshot)
    session = open_repository(repo).readonly_session(version)
    top = NodePath.from_key_prefix(path)
    nodes = nodes_below(session, top, 1)
    if any(node.path == top and node.array is None for node in nodes):
        nodes = [node for node in nodes if node.path != top]
    if as_json:
        print_json([node_as_json(node) for node in nodes])
    elif not nodes:
        print("nothing is here")
    else:
        print_table(["name", "type", "shape", "data type", "chunks"], list(map(node_as_row, nodes)))
