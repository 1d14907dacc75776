"""Resolves arguments of commands: a location, a repository, a version of it."""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

import typer

from frazil.engine.refs.version import Branch, Exactly, Tag, Version, find_ref
from frazil.engine.repository import Repository
from frazil.errors import (
    InvalidInputError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SnapshotNotFoundError,
)
from frazil.ids import SnapshotId
from frazil.objectstore.archive import ArchiveStore
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore

# Storage options of buckets, for every command that takes a place.
#
#     --storage-option NAME=VALUE      region, endpoint_url, account, ...; may be repeated
#     --storage-file FILE              the same as a JSON object; the one place for secrets
#     --region, --endpoint-url URL, --anonymous     short for the first
#
# Without them a bucket is opened with what the environment says. A secret is refused on the command
# line, where others could read it in the list of processes, and no message repeats a value.

_STORAGE_OPTION = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="NAME=VALUE",
        help="How a bucket is reached: region=..., endpoint_url=..., account=...; may be repeated."
        " --region, --endpoint-url and --anonymous are short for it.",
        show_default=False,
    ),
]
_STORAGE_FILE = Annotated[
    Path | None,
    typer.Option(
        "--storage-file",
        metavar="FILE",
        help="The same as JSON. Secrets belong there, or into the environment.",
        show_default=False,
    ),
]
_REGION = Annotated[str | None, typer.Option("--region", hidden=True)]
_ENDPOINT_URL = Annotated[str | None, typer.Option("--endpoint-url", metavar="URL", hidden=True)]
_ANONYMOUS = Annotated[bool, typer.Option("--anonymous", hidden=True)]
_TARGET_OPTION = Annotated[
    list[str] | None,
    typer.Option(
        "--target-option",
        metavar="NAME=VALUE",
        help="How TARGET is reached, if not in the same way; may be repeated.",
        show_default=False,
    ),
]
_ADDED: tuple[tuple[str, Any, Any], ...] = (
    ("storage_option", _STORAGE_OPTION, None),
    ("storage_file", _STORAGE_FILE, None),
    ("region", _REGION, None),
    ("endpoint_url", _ENDPOINT_URL, None),
    ("anonymous", _ANONYMOUS, False),
)
_WITH_TARGET = (("target_option", _TARGET_OPTION, None),)


@dataclass(frozen=True, slots=True)
class Reach:
    """Names and values of storage options; values may be secrets."""

    repo: Mapping[str, object] = field(default_factory=dict, repr=False)
    target: Mapping[str, object] | None = field(default=None, repr=False)


_REACH: ContextVar[Reach] = ContextVar("how the buckets of this command are reached")


def reach() -> Reach:
    """Returns the storage options of the command line; none outside of a command."""
    return _REACH.get(Reach())


def with_storage_options(
    command: Callable[..., None], *, target: bool = False
) -> Callable[..., None]:
    """The command with these options added, except for names that it has itself."""
    signature = inspect.signature(command)
    wanted = (*_ADDED, *(_WITH_TARGET if target else ()))
    added = {
        name: inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, annotation, default in wanted
        if name not in signature.parameters
    }

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        given = {name: options.pop(name, None) for name in added}
        with _use_storage_options(_parse(**given)):
            command(*arguments, **options)

    changed: Any = run
    changed.__signature__ = signature.replace(
        parameters=[*signature.parameters.values(), *added.values()]
    )
    return run


@contextmanager
def _use_storage_options(found: Reach) -> Iterator[None]:
    token = _REACH.set(found)
    try:
        yield
    finally:
        _REACH.reset(token)


def _parse(
    *,
    storage_option: list[str] | None = None,
    storage_file: Path | None = None,
    region: str | None = None,
    endpoint_url: str | None = None,
    anonymous: bool | None = None,
    target_option: list[str] | None = None,
) -> Reach:
    found: dict[str, object] = {} if storage_file is None else _read(storage_file)
    found |= parse_options(storage_option or [], "--storage-option")
    if region:
        found["region"] = region
    if endpoint_url:
        found["endpoint_url"] = endpoint_url
    if anonymous:
        found["anonymous"] = "true"
    target = parse_options(target_option, "--target-option") if target_option else None
    return Reach(_with_plain_http(found), None if target is None else _with_plain_http(target))


def parse_options(texts: list[str], option: str) -> dict[str, object]:
    """`region=eu-west-1`, one in each text. Refuses secrets without repeating them."""
    if not texts:
        return {}
    from frazil.spark.runtime.storage_options import is_secret

    found = dict[str, object]()
    for text in texts:
        name, given, value = text.partition("=")
        if not given:
            raise typer.BadParameter(
                f"{text!r} is not NAME=VALUE, as in region=eu-west-1", param_hint=option
            )
        if is_secret(name):
            raise typer.BadParameter(
                f"{name!r} is a secret, which others could see in the list of processes:"
                " leave it to the environment, or to --storage-file",
                param_hint=option,
            )
        found[name.strip()] = value
    return found


def _read(file: Path) -> dict[str, object]:
    import json

    try:
        found = json.loads(file.read_text())
    except OSError as error:
        raise typer.BadParameter(
            f"{file}: {error.strerror}", param_hint="--storage-file"
        ) from error
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise typer.BadParameter(
            f'{file} is not a JSON object such as {{"region": "eu-west-1"}}',
            param_hint="--storage-file",
        )
    return found


def _with_plain_http(options: dict[str, object]) -> dict[str, object]:
    """Allows plain HTTP for an endpoint that is given without TLS."""
    address = str(options.get("endpoint_url", ""))
    return {"allow_http": "true", **options} if address.startswith("http://") else options


_ANCESTOR = re.compile(r"(?P<ref>.+)~(?P<steps>\d{1,9})")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+]+)://")


def store_at(location: str, options: Mapping[str, object] | None = None) -> ObjectStore:
    """A folder, or what a URL names; nothing has to be there.

    A bucket is reached as `options` say, or as the command line does.
    """
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
        return Repository.open(store_at(location))
    except RepositoryNotFoundError as error:
        raise RepositoryNotFoundError(f"there is no repository at {location}") from error


def chosen_version(*, branch: str | None, tag: str | None, snapshot: str | None) -> Version:
    """Returns the version that --branch, --tag and --snapshot name; by default the tip of main."""
    if sum(option is not None for option in (branch, tag, snapshot)) > 1:
        raise typer.BadParameter("give one of --branch, --tag and --snapshot")
    if snapshot is not None:
        return Exactly(SnapshotId.parse(snapshot))
    return Branch(branch or "main") if tag is None else Tag(tag)


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
        return None


# Sources and targets of commands: a folder, a bucket, or a bundle.


def open_source(location: str) -> Repository:
    """The repository in a folder, in a bucket (s3://bucket/prefix), or in a bundle."""
    if "://" not in location and Path(location).is_file():
        return Repository.open(ArchiveStore(location))
    return open_repository(location)


def open_target(location: str) -> ObjectStore:
    """A folder or a bucket; nothing has to be there."""
    return store_at(location, reach().target)
