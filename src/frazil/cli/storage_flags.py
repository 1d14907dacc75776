"""Storage options of buckets, for every command that takes a place.

    --storage-option NAME=VALUE      region, endpoint_url, account, ...; may be repeated
    --storage-file FILE              the same as a JSON object; the one place for secrets
    --region, --endpoint-url URL, --anonymous     short for the first

Without them a bucket is opened with what the environment says. A secret is refused on the command
line, where others could read it in the list of processes, and no message repeats a value.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from frazil.dataclass import dataclass

_STORAGE_OPTION = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="NAME=VALUE",
        help="Setting of a bucket, such as region=eu-west-1; see `frazil help storage`.",
        show_default=False,
    ),
]
_STORAGE_FILE = Annotated[
    Path | None,
    typer.Option(
        "--storage-file",
        metavar="FILE",
        hidden=True,
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
        help="Setting of TARGET's bucket, if different; repeatable.",
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


TOPIC = """\
Storage: how a bucket is reached

  --region NAME                 region of an S3 bucket
  --endpoint-url URL            an S3-compatible server, such as http://127.0.0.1:9000
  --anonymous                   without credentials, for public buckets
  --storage-option NAME=VALUE   any other parameter of s3_storage, gcs_storage, azure_storage;
                                repeatable
  --storage-file FILE           the same as a JSON object; the only place for secrets besides the
                                environment
  --target-option NAME=VALUE    clone and migrate: the same for TARGET

Credentials come from the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS,
AZURE_STORAGE_ACCOUNT, ...) or from --storage-file. They are refused on the command line, where
other users could read them in the list of processes.

`frazil repo add NAME URL` remembers a location and these options. `frazil doctor REPO` checks
whether it can be reached."""


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


def require_no_secrets(options: Mapping[str, object]) -> None:
    """Raises BadParameter if an option that is to be stored is a secret."""
    from frazil.spark.runtime.storage_options import is_secret

    for name in options:
        if is_secret(name):
            raise typer.BadParameter(
                f"{name!r} is a secret, which is not stored: leave it to the environment, or give"
                " --storage-file each time"
            )


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
