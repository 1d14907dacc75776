"""`frazil cat`: the values of an array."""

from frazil.cli.options import (
    Array,
    AsJson,
    Authorize,
    Branch,
    Isel,
    Repo,
    Sel,
    Snapshot,
    Tag,
)

MOST_VALUES = 1_000_000


def cat(
    repo: Repo,
    path: Array,
    *,
    sel: Sel = None,
    isel: Isel = None,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    authorize: Authorize = None,
    as_json: AsJson = False,
) -> None:
    """Print the values of an array, or of a part of it; of a group, its attributes.

    Numbers are decoded as CF has it (scale_factor, _Unsigned, missing values, units since). A line
    is a row of the last dimension.
    """
    from frazil.cli.selecting import parse_isel, parse_sel

    labels, numbers = parse_sel(sel or []), parse_isel(isel or [])

    from frazil.cli.views.values import open_session, print_group, print_values
    from frazil.errors import InvalidInputError
    from frazil.paths import NodePath

    session = open_session(repo, branch, tag, snapshot, authorize or [])
    where = NodePath.from_key_prefix(path)
    if session.node(where).array is None:
        if labels or numbers:
            raise InvalidInputError(f"{path} is a group: --sel and --isel are for arrays")
        print_group(session, where)
        return

    from frazil.cli.views.selected import select

    chosen = select(session, where, labels, numbers)
    if chosen.size > MOST_VALUES:
        raise InvalidInputError(
            f"{path} has {chosen.size:,} values here, more than a terminal should show:"
            " choose some with --sel or --isel, or write a file with `frazil read -o`"
        )
    print_values(chosen, as_json=as_json)
