"""`frazil ls`: the groups and arrays of a version, as a tree."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Branch, Repo, Snapshot, Tag


def ls(
    repo: Repo,
    path: Annotated[str, typer.Argument(help="Show only what is here and below.")] = "/",
    *,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    as_json: AsJson = False,
) -> None:
    """Show the groups and arrays of a version."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import chosen_version, open_repository
    from frazil.cli.views.tree import node_as_json, tree_lines
    from frazil.paths import NodePath

    version = chosen_version(branch=branch, tag=tag, snapshot=snapshot)
    session = open_repository(repo).readonly_session(version)
    top = NodePath.from_key_prefix(path)
    if top.text != "/":
        session.node(top)  # raises if there is none
    nodes = list(session.nodes(top))
    if as_json:
        print_json([node_as_json(node) for node in nodes])
    else:
        print(top)
        for line in tree_lines([node for node in nodes if node.path != top], top):
            print(line)
