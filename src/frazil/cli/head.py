"""`frazil head`: what an array is, and how it begins."""

from typing import Annotated

import typer

from frazil.cli.options import Array, AsJson, Authorize, Branch, Repo, Snapshot, Tag


def head(
    repo: Repo,
    path: Array,
    *,
    count: Annotated[
        int, typer.Option("-n", "--number", min=1, help="So many values of the last dimensions.")
    ] = 5,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    authorize: Authorize = None,
    as_json: AsJson = False,
) -> None:
    """Show what an array is (shape, type, chunks, codecs, attributes), and its first values."""
    from frazil.cli.views.values import open_session, print_head
    from frazil.errors import InvalidInputError
    from frazil.paths import NodePath

    session = open_session(repo, branch, tag, snapshot, authorize or [])
    where = NodePath.from_key_prefix(path)
    if session.node(where).array is None:
        raise InvalidInputError(f"{path} is a group: `frazil ls` lists what is in it")
    print_head(session, where, count, as_json=as_json)
