"""`frazil tree`: the groups and arrays of a version, drawn."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import AsJson, Branch, Repo, Snapshot, Tag, complete

if TYPE_CHECKING:
    from collections.abc import Buffer


def tree(
    repo: Repo,
    path: Annotated[
        str, typer.Argument(help="Start at this group.", autocompletion=complete("paths"))
    ] = "/",
    *,
    depth: Annotated[
        int | None, typer.Option("-d", "--depth", min=1, metavar="N", help="Show N levels.")
    ] = None,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    as_json: AsJson = False,
) -> None:
    """Show all groups and arrays of a version as a tree."""
    from frazil.cli.output import paged, print_json
    from frazil.cli.repositories import chosen_version, open_repository
    from frazil.describe.tree import node_as_json, nodes_below, tree_lines
    from frazil.paths import NodePath

    repository = open_repository(repo)
    version = chosen_version(repository, branch=branch, tag=tag, snapshot=snapshot)
    session = repository.readonly_session(version)
    top = NodePath.from_key_prefix(path)
    nodes = nodes_below(session, top, depth)
    if as_json:
        print_json([node_as_json(node) for node in nodes])
        return
    lines = tree_lines([node for node in nodes if node.path != top], top)
    with paged():
        print("\n".join([str(top), *lines]))


# `frazil ls`: what is in a group.


def ls(
    repo: Repo,
    path: Annotated[
        str, typer.Argument(help="A group, or an array.", autocompletion=complete("paths"))
    ] = "/",
    *,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    as_json: AsJson = False,
) -> None:
    """List a group. `frazil tree` shows everything below it."""
    from frazil.cli.output import print_json, print_table
    from frazil.cli.repositories import chosen_version, open_repository
    from frazil.describe.tree import HEADERS, node_as_json, node_as_row, nodes_below
    from frazil.paths import NodePath

    repository = open_repository(repo)
    version = chosen_version(repository, branch=branch, tag=tag, snapshot=snapshot)
    session = repository.readonly_session(version)
    top = NodePath.from_key_prefix(path)
    nodes = nodes_below(session, top, 1)
    if any(node.path == top and node.array is None for node in nodes):
        nodes = [node for node in nodes if node.path != top]
    if as_json:
        print_json([node_as_json(node) for node in nodes])
    elif not nodes:
        print("this group is empty")
    else:
        rows = list(map(node_as_row, nodes))
        used = [k for k in range(len(HEADERS)) if any(row[k] for row in rows)]
        print_table([HEADERS[k] for k in used], [[row[k] for k in used] for row in rows])


# `frazil dump`: any metadata file as JSON.


def dump(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file of a repository, e.g. REPO/repo; or a URL."),
    ],
    *,
    full: Annotated[bool, typer.Option("--full", help="Show all rows.")] = False,
) -> None:
    """Show any metadata file of a repository as JSON."""
    from frazil.cli.output import print_json
    from frazil.describe.dump import DEFAULT_MAX_ROWS
    from frazil.describe.inspect import dump_file
    from frazil.errors import FormatError

    try:
        content = dump_file(_read(file), max_rows=None if full else DEFAULT_MAX_ROWS)
    except FormatError as error:
        raise error.at(file) from error
    print_json(content)


def _read(file: str) -> "Buffer":
    from pathlib import Path

    if "://" not in file or file.startswith("file://"):
        return Path(file.removeprefix("file://")).read_bytes()
    from frazil.cli.repositories import store_at

    folder, _, name = file.rpartition("/")
    return store_at(folder).get(name).data


# `frazil metadata`: what a repository says about itself.

metadata_app = typer.Typer(help="Show and change a repository's metadata.", no_args_is_help=True)
Key = Annotated[str, typer.Argument(metavar="KEY")]


@metadata_app.command("show")
def show_metadata(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show the metadata of the repository itself; that of commits is in `frazil show`."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository

    found = open_repository(repo).info_of_version_2().metadata
    if as_json:
        print_json(found)
    else:
        _print(found)


@metadata_app.command("set")
def set_metadata(
    repo: Repo,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or text if it is not JSON.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Set one key; what others set at the same time is kept."""
    import json

    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository

    repository = open_repository(repo)
    repository.info_of_version_2()
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = value
    found = repository.update_metadata({key: parsed})
    if as_json:
        print_json(found)
    else:
        _print(found)


@metadata_app.command("unset")
def unset_metadata(repo: Repo, key: Key, *, as_json: AsJson = False) -> None:
    """Remove one key."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.errors import InvalidInputError

    repository = open_repository(repo)
    found = repository.info_of_version_2().metadata
    if key not in found:
        raise InvalidInputError(f"the metadata has no {key!r}")
    left = {name: value for name, value in found.items() if name != key}
    repository.set_metadata(left)
    if as_json:
        print_json(left)
    else:
        _print(left)


def _print(metadata: Mapping[str, object]) -> None:
    import json

    if not metadata:
        print("no metadata")
    for name, value in metadata.items():
        print(f"{name}: {value if isinstance(value, str) else json.dumps(value)}")
