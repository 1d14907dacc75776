"""Resolves arguments of commands: a location, a repository, a version of it."""

import json
import os
import re
from collections.abc import Mapping
from contextvars import ContextVar
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

import typer

from frazil.cli.options import DEFAULT_REPO
from frazil.cli.storage_flags import reach
from frazil.dataclass import dataclass
from frazil.engine.refs.version import Branch, Exactly, Tag, Version, find_ref
from frazil.engine.repository import Repository
from frazil.errors import (
    IcechunkError,
    InvalidInputError,
    NodeNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SnapshotNotFoundError,
)
from frazil.ids import ALPHABET, SnapshotId, format_ids
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore

_ANCESTOR = re.compile(r"(?P<ref>.+)~(?P<steps>\d{1,9})")
_SHORTEST_PREFIX = 4  # of a snapshot id, as with git
_ID_WIDTH = 20
_SHOWN_IDS = 3  # where one is ambiguous
_QUOTED = re.compile(r"[`'\"]([^`'\"]+)[`'\"]")
_LAST_OPENED: ContextVar[Repository] = ContextVar("the repository that the command opened last")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+]+)://")


def store_at(location: str, options: Mapping[str, object] | None = None) -> ObjectStore:
    """A folder, or what a URL names; nothing has to be there.

    A bucket is reached as `options` say, or as the command line does.
    """
    named = find_named(location)
    if named is not None:
        location = named.location
        options = {**named.options, **(reach().repo if options is None else options)}
    url = _URL.match(location)
    if url and url["scheme"].lower() != "file":
        return _store_at_url(location, reach().repo if options is None else options)
    path = Path(unquote(urlsplit(location).path)) if url else Path(location)
    if path.exists() and not path.is_dir():
        raise InvalidInputError(f"{location} is a file, not the directory of a repository")
    return LocalStore(path)


def _store_at_url(location: str, options: Mapping[str, object]) -> ObjectStore:
    from frazil.spark.runtime.storage_options import storage_of, with_prefix

    return storage_of(
        {"path": location, **with_prefix({**_from_environment(location), **options})}
    ).store


def _from_environment(location: str) -> dict[str, object]:
    """Reads the account that az://container/prefix does not name from the environment."""
    if not location.lower().startswith(("az://", "azure://")):
        return {}
    names = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
    account = next((os.environ[name] for name in names if os.environ.get(name)), None)
    return {} if account is None else {"account": account}


def open_repository(location: str) -> Repository:
    """The repository in a folder, in a bucket (s3://bucket/prefix) or on a web server."""
    try:
        opened = Repository.open(store_at(location))
        _LAST_OPENED.set(opened)
        return opened  # noqa: TRY300 -- remembered only if it could be opened
    except RepositoryNotFoundError as error:
        raise RepositoryNotFoundError(f"there is no repository at {location}") from error


def suggestion(error: BaseException) -> str | None:
    """The branch, tag or path of the last opened repository whose name is like one not found."""
    repository, named = _LAST_OPENED.get(None), _QUOTED.search(str(error))
    if repository is None or named is None:
        return None
    try:
        if isinstance(error, RefNotFoundError):
            names = {*repository.branches(), *repository.tags()}
        elif isinstance(error, NodeNotFoundError):
            nodes = repository.readonly_session(Branch("main")).nodes()
            names = {node.path.text for node in nodes}
        else:
            return None
    except IcechunkError:
        return None
    return next(iter(get_close_matches(named[1], names, n=1)), None)


def chosen_version(
    repository: Repository, *, branch: str | None, tag: str | None, snapshot: str | None
) -> Version:
    """Returns the version that --branch, --tag and --snapshot name; by default the tip of main."""
    if sum(option is not None for option in (branch, tag, snapshot)) > 1:
        raise typer.BadParameter("give one of --branch, --tag and --snapshot")
    if snapshot is not None:
        return Exactly(parse_snapshot(repository, snapshot))
    return Branch(branch or "main") if tag is None else Tag(tag)


def parse_snapshot(repository: Repository, text: str) -> SnapshotId:
    """The snapshot with this id, or the only one whose id begins so; it need not exist."""
    if not _is_prefix(text):
        return SnapshotId.parse(text)
    found = _find_abbreviated(repository, text)
    if found is None:
        raise SnapshotNotFoundError(f"no snapshot id begins with {text!r}")
    return found


def _find_abbreviated(repository: Repository, text: str) -> SnapshotId | None:
    """The snapshot whose id begins with `text`. Raises InvalidInputError if there are several."""
    if not _is_prefix(text):
        return None
    prefix = text.upper()
    ids = repository.repo_info().snapshots.ids
    found = [(each, row) for row, each in enumerate(format_ids(ids)) if each.startswith(prefix)]
    if len(found) > 1:
        shown = ", ".join(each for each, _ in found[:_SHOWN_IDS])
        more = ", ..." if len(found) > _SHOWN_IDS else ""
        raise InvalidInputError(
            f"{text!r} is ambiguous: {len(found)} snapshot ids begin with it ({shown}{more})"
        )
    return SnapshotId(ids[found[0][1]].tobytes()) if found else None


def _is_prefix(text: str) -> bool:
    """True for at least four letters that an id can begin with, but not for a whole id."""
    return _SHORTEST_PREFIX <= len(text) < _ID_WIDTH and not {*text.upper()} - {*ALPHABET}


def resolve(repository: Repository, text: str) -> SnapshotId:
    """The snapshot that `text` names: a branch, a tag, an id, or any of these with `~N`.

    `main~2` is the grandparent of main's tip. Names win over ids, and a whole name over `~N`.
    `branch:v1` and `tag:v1` say which is meant, where there are both.
    """
    found = _find_exact(repository, text)
    if found is not None:
        return found
    ancestor = _ANCESTOR.fullmatch(text)
    if ancestor and (start := _find_exact(repository, ancestor["ref"])) is not None:
        steps = int(ancestor["steps"])
        for record in islice(repository.ancestry(Exactly(start)), steps, None):
            return record.id
        raise SnapshotNotFoundError(f"{ancestor['ref']!r} has fewer than {steps} ancestors")
    raise RefNotFoundError(f"{text!r} is not a branch, a tag or the id of a snapshot")


def _find_exact(repository: Repository, text: str) -> SnapshotId | None:
    found = find_ref(repository.branches(), repository.tags(), text)
    if found is not None:
        return found
    try:
        return repository.lookup_snapshot(SnapshotId.parse(text)).id
    except (InvalidInputError, SnapshotNotFoundError):
        return _find_abbreviated(repository, text)


# Named repositories: locations and storage options, in a file of the user.


@dataclass(frozen=True, slots=True)
class NamedRepository:
    location: str
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class KnownRepositories:
    """Repositories by name; `default` is one of the names."""

    by_name: Mapping[str, NamedRepository]
    default: str | None = None


def names_file() -> Path:
    """$FRAZIL_REPOSITORIES, or repositories.json in the user's configuration folder."""
    given = os.environ.get("FRAZIL_REPOSITORIES")
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(given) if given else Path(folder) / "frazil" / "repositories.json"


def known_repositories() -> KnownRepositories:
    """None are known if there is no file. Raises InvalidInputError for one that cannot be read."""
    file = names_file()
    try:
        stored = json.loads(file.read_text())
        found = {
            str(name): NamedRepository(str(each["location"]), dict(each.get("options", {})))
            for name, each in stored["repositories"].items()
        }
        return KnownRepositories(found, stored.get("default"))
    except (FileNotFoundError, NotADirectoryError):
        return KnownRepositories({})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"{file} is not a list of repositories: {error}") from error


def save_repositories(known: KnownRepositories) -> None:
    """Replaces the file as a whole."""
    file = names_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    listed = {
        name: {"location": each.location, "options": dict(each.options)}
        for name, each in sorted(known.by_name.items())
    }
    text = json.dumps({"default": known.default, "repositories": listed}, indent=2)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(f"{text}\n")
    draft.replace(file)


def require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInputError(f"{name!r} cannot be a name: use letters, digits and . _ -")


def require_known(name: str) -> KnownRepositories:
    """All of them, if one has that name."""
    known = known_repositories()
    if name not in known.by_name:
        close = get_close_matches(name, known.by_name, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise InvalidInputError(f"no repository has the name {name!r}{meant}")
    return known


def find_named(text: str) -> NamedRepository | None:
    """The repository of that name, or the default one; a folder of that name goes first."""
    if text == DEFAULT_REPO:
        known = known_repositories()
        if known.default is None or known.default not in known.by_name:
            raise typer.BadParameter(
                "no REPO is given, and there is no default: `frazil repo default NAME` sets one"
            )
        return known.by_name[known.default]
    if not _NAME.fullmatch(text) or Path(text).exists():
        return None
    return known_repositories().by_name.get(text)


# Sources and targets of commands: a folder, a bucket, or a bundle.


def open_source(location: str) -> Repository:
    """The repository in a folder, in a bucket (s3://bucket/prefix), or in a bundle."""
    if "://" not in location and Path(location).is_file():
        from frazil.objectstore.archive import ArchiveStore

        return Repository.open(ArchiveStore(location))
    return open_repository(location)


def open_target(location: str) -> ObjectStore:
    """A folder or a bucket; nothing has to be there."""
    return store_at(location, reach().target)
