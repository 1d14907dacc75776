"""`frazil tree`: the groups and arrays of a version, drawn."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Branch, Repo, Snapshot, Tag


def tree(
    repo: Repo,
    path: Annotated[str, typer.Argument(help="Show only what is here and below.")] = "/",
    *,
    depth: Annotated[
        int | None, typer.Option("-d", "--depth", min=1, help="So many levels.")
    ] = None,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    as_json: AsJson = False,
) -> None:
    """Show all groups and arrays of a version as a tree."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import chosen_version, open_repository
    from frazil.cli.views.tree import node_as_json, nodes_below, tree_lines
    from frazil.paths import NodePath

    version = chosen_version(branch=branch, tag=tag, snapshot=snapshot)
    session = open_repository(repo).readonly_session(version)
    top = NodePath.from_key_prefix(path)
    nodes = nodes_below(session, top, depth)
    if as_json:
        print_json([node_as_json(node) for node in nodes])
        return
    print(top)
    for line in tree_lines([node for node in nodes if node.path != top], top):
        print(line)
