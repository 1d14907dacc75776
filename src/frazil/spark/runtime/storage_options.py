"""Options `storage.<name>`: how the bucket that `path` names is reached.

    path                                    names
    a folder, file:///folder                none
    s3://bucket/prefix, s3a://, tigris://   those of frazil.s3_storage:    region, endpointUrl, ...
    gs://bucket/prefix, gcs://              those of frazil.gcs_storage:   bearerToken, config, ...
    az://container/prefix and storage.account,
    abfss://container@account.host/prefix   those of frazil.azure_storage: sasToken, config, ...
    http://, https://                       those of frazil.http_storage:  secretHeaders, opts

Upper and lower case, `_` and `-` make no difference. A secret must have a name that Spark hides
from its pages and plans (`spark.redaction.regex`): `storage.accessKey` is hidden,
`storage.access_key` would be shown, and is an error. "secret" may be put before any name.
Without credentials each process looks into its environment.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from frazil.errors import InvalidInputError
from frazil.lazy import lazy_module
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore, RemoteSettings
from frazil.objectstore.registry import Parser, StoreScheme, find_scheme, register
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.azure import AzurePlace
from frazil.objectstore.remote.gcs import GcsPlace
from frazil.objectstore.remote.place import HttpPlace
from frazil.objectstore.remote.redirect import RedirectedStore
from frazil.objectstore.remote.s3 import BucketRoot, S3Place
from frazil.spark.runtime.access import decode_values, encode_values

if TYPE_CHECKING:
    from frazil.api import storage, storage_functions
else:  # all public names of frazil, which a worker that reads a folder does not need
    storage = lazy_module("frazil.api.storage")
    storage_functions = lazy_module("frazil.api.storage_functions")

PREFIX = "storage."
_HIDDEN = re.compile(r"(?i)secret|password|token|access[.]?key")  # Spark's default
_SECRETS = {
    "secret_access_key", "session_token", "access_key", "sas_token", "bearer_token",
    "service_account_key", "headers", "read_headers", "write_headers", "config", "opts",
}  # fmt: skip


def is_storage_option(name: str) -> bool:
    return name.lower().startswith(PREFIX)


def is_secret(name: str) -> bool:
    """True if the value of this name, without prefix, must not be shown."""
    return _plain(name).removeprefix("secret") in {
        form for known in _SECRETS for form in (_plain(known), _plain(known).removeprefix("secret"))
    }


def storage_options_in(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the `options` that are about storage, with their prefix."""
    return {name: text for name, text in options.items() if is_storage_option(name)}


def with_prefix(options: Mapping[str, object]) -> dict[str, str]:
    """Converts names without the prefix and Python values to options."""
    return {PREFIX + _hidden_name(name): _text(value) for name, value in options.items()}


def storage_of(options: Mapping[str, str]) -> "storage.Storage":
    """Returns the storage of `store_of`."""
    return storage.Storage(store_of(options))


def store_of(options: Mapping[str, str]) -> ObjectStore:
    """Returns the store of the option `path` and the storage options; other options are ignored.

    Raises InvalidInputError for a name or a value that cannot be, without repeating a value.
    """
    path = next((text for name, text in options.items() if name.lower() == "path"), "")
    if not path:
        raise InvalidInputError("option 'path' is missing: where the repository is")
    if "\0" in path:
        raise InvalidInputError("option 'path' has a null character, which no location has")
    kind, own = _kind_of(path), storage_options_in(options)
    parameters = _parse(kind, own)
    try:
        return kind.open(path, **parameters)
    except InvalidInputError:
        raise
    except ValueError:  # its text may repeat a secret
        raise InvalidInputError(
            f"cannot use option {', '.join(map(repr, sorted(own)))}: they do not go together,"
            " one is missing, or a value is not allowed"
        ) from None


type _Parameters = dict[str, Any]


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.lower() == "true"


_MOST_DIGITS = 18  # of a number that fits 64 bits


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise ValueError("expected a number")
    return int(text)


def _mapping(text: str) -> dict[str, str]:
    value = json.loads(text)
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ValueError("expected a JSON object of texts")
    return value


_ANYWHERE: dict[str, Parser] = {"anonymous": _boolean, "from_env": _boolean}
_S3: dict[str, Parser] = {
    "region": str,
    "endpoint_url": str,
    "allow_http": _boolean,
    "access_key_id": str,
    "secret_access_key": str,
    "session_token": str,
    "force_path_style": _boolean,
    "network_stream_timeout_seconds": _number,
    "requester_pays": _boolean,
    "headers": _mapping,
    "read_headers": _mapping,
    "write_headers": _mapping,
    **_ANYWHERE,
}
_TIGRIS = {
    name: reader
    for name, reader in _S3.items()
    if name not in {"force_path_style", "requester_pays"}
} | {"use_weak_consistency": _boolean}
_GCS: dict[str, Parser] = {
    "service_account_file": str,
    "service_account_key": str,
    "application_credentials": str,
    "bearer_token": str,
    "config": _mapping,
    **_ANYWHERE,
}
_AZURE: dict[str, Parser] = {
    "account": str,
    "access_key": str,
    "sas_token": str,
    "bearer_token": str,
    "config": _mapping,
    **_ANYWHERE,
}
_HTTP: dict[str, Parser] = {"headers": _mapping, "opts": _mapping}


def _on_the_web(url: str, **given: Any) -> ObjectStore:
    return storage_functions.http_storage(url, **given).store


def _in_bucket(function: str, url: str, **given: Any) -> ObjectStore:
    parts, make = urlsplit(url), getattr(storage_functions, function)
    store: ObjectStore = make(
        bucket=parts.netloc, prefix=unquote(parts.path).strip("/"), **given
    ).store
    return store


def _open_azure(path: str, **given: Any) -> ObjectStore:
    parts = urlsplit(path)
    container, account = _azure_names(parts)
    named = given.pop("account", account)
    if not named or (account and named != account):
        raise InvalidInputError(
            f"{path!r} is in a storage account: name it in the option 'storage.account',"
            f" or write abfss://container@account.dfs.core.windows.net/prefix"
        )
    prefix = unquote(parts.path).strip("/")
    make = storage_functions.azure_storage
    return make(account=named, container=container, prefix=prefix, **given).store


def _azure_names(parts: SplitResult) -> tuple[str, str]:
    """Container and account; the latter is empty if the address does not say."""
    container, at, host = parts.netloc.partition("@")
    return (container, host.partition(".")[0]) if at else (parts.netloc, "")


def _open_folder(path: str) -> ObjectStore:
    folder = unquote(urlsplit(path).path) if "://" in path else path
    return LocalStore(folder)


register("", "file", label="a folder", opener=_open_folder)
register("http", "https", label="the web", parameters=_HTTP, opener=_on_the_web)
register("s3", "s3a", label="s3://", parameters=_S3, opener=partial(_in_bucket, "s3_storage"))
register("tigris", parameters=_TIGRIS, opener=partial(_in_bucket, "tigris_storage"))
register("gs", "gcs", label="gs://", parameters=_GCS, opener=partial(_in_bucket, "gcs_storage"))
register("az", "azure", "abfs", "abfss", label="az://", parameters=_AZURE, opener=_open_azure)


def _kind_of(path: str) -> StoreScheme:
    scheme = urlsplit(path).scheme.lower() if "://" in path else ""
    kind = find_scheme(scheme)
    if kind is None:
        raise InvalidInputError(
            f"no storage for {scheme}:// in {path!r}: expected a folder, s3://, gs://, az://"
            " or http(s)://; others are passed as an open repository"
        )
    return kind


def _parse(kind: StoreScheme, options: Mapping[str, str]) -> _Parameters:
    known = {_plain(name): name for name in kind.parameters}
    parsed: _Parameters = {}
    for option, text in options.items():
        name = known.get(_plain(option[len(PREFIX) :])) or known.get(
            _plain(option[len(PREFIX) :]).removeprefix("secret")
        )
        if name is None:
            raise InvalidInputError(_unknown(option, kind))
        if name in _SECRETS and not _HIDDEN.search(option):
            raise InvalidInputError(
                f"option {option!r} holds a secret, and Spark would show it:"
                f" call it {PREFIX + _hidden_name(name)!r}"
            )
        if name in parsed:
            raise InvalidInputError(f"option {PREFIX + _camel(name)!r} is given twice")
        parsed[name] = _read(option, kind.parameters[name], text)
    return parsed


def _read(option: str, reader: Parser, text: str) -> object:
    try:
        return reader(text)
    except RecursionError:
        raise InvalidInputError(f"cannot read option {option!r}: it is no JSON") from None
    except ValueError as error:  # its text is in no message: it may be a secret
        expected = "it is no JSON" if isinstance(error, json.JSONDecodeError) else str(error)
        raise InvalidInputError(f"cannot read option {option!r}: {expected}") from None


def _unknown(option: str, kind: StoreScheme) -> str:
    names = {_plain(name): PREFIX + _hidden_name(name) for name in kind.parameters}
    close = get_close_matches(_plain(option[len(PREFIX) :]), names, n=1)
    hint = f" (did you mean {names[close[0]]!r}?)" if close else ""
    known = ", ".join(names.values()) or "none"
    return f"unknown option {option!r}{hint}; those for {kind.label} are {known}"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]", "", name).lower()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _hidden_name(name: str) -> str:
    """Returns the spelling of an option that Spark redacts, if it is a secret."""
    camel = _camel(name)
    if name not in _SECRETS or _HIDDEN.search(camel):
        return camel
    return "secret" + camel[0].upper() + camel[1:]


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Mapping():
            return json.dumps(dict(value))
        case _:
            return str(value)


# Location of a repository as text: options are all that Spark hands to its workers.
#
# path            a folder, or the location of a bucket: s3://bucket/prefix
# storage.<name>  how that bucket is reached: see storage_options.py
# secretStorage   the same, credentials included, as JSON (plain_values.py); the name makes Spark
#                 hide it from its pages and plans
#
# A location alone is opened with what each process finds in its environment.


@dataclass(frozen=True, slots=True)
class PlaceText:
    path: str
    secret: str = field(default="", repr=False)


def format_path(path: str) -> PlaceText:
    """Formats a location; a folder becomes absolute, since workers start in another directory."""
    return PlaceText(path if "://" in path else str(Path(path).absolute()))


def format_place(store: ObjectStore) -> PlaceText:
    """Raises InvalidInputError for a store that no other process could open."""
    store = require_shared(store)
    if isinstance(store, LocalStore):
        return PlaceText(store.root)
    place, settings = store.place, store.settings
    probes = store.probes if isinstance(store, BucketRoot) else None
    secret = encode_values({"place": place, "settings": settings, "probes": probes})
    return PlaceText(place.location, secret)


def require_shared(store: ObjectStore) -> LocalStore | RemoteStore | BucketRoot:
    """The store below wrappers. Raises InvalidInputError if no other process could open it."""
    if isinstance(store, RedirectedStore):
        store = store.target
    if isinstance(store, LocalStore | RemoteStore | BucketRoot):
        return store
    raise InvalidInputError(
        f"Spark's workers are other processes and cannot open {store!r};"
        " keep the repository in a folder or a bucket that they can see"
    )


def place_of_options(options: Mapping[str, str]) -> PlaceText:
    """Returns the place of the options; of `path` alone if no option configures access."""
    given = {name.lower(): text for name, text in options.items()}
    if not storage_options_in(options):
        return PlaceText(given.get("path", ""), given.get("secretstorage", ""))
    if given.get("secretstorage"):
        raise InvalidInputError("options secretStorage and storage.<name> exclude each other")
    return format_place(store_of(options))


def open_place(text: PlaceText) -> ObjectStore:
    if not text.secret:
        return store_of({"path": text.path})
    values = decode_values("secretStorage", text.secret, _FIELDS)
    place, settings, probes = values["place"], values["settings"], values.get("probes")
    _require_usable(settings)
    if probes is None:
        return RemoteStore(place, settings)
    if not isinstance(place, S3Place):
        raise InvalidInputError("option 'secretStorage' has probes, which only S3Place takes")
    return BucketRoot(place, probes, settings)


_FIELDS = {
    "place": S3Place | GcsPlace | AzurePlace | HttpPlace,
    "settings": RemoteSettings,
    "probes": tuple[str, ...] | None,
}
_AT_LEAST_ONE = (
    "max_requests", "max_requests_for_object", "request_bytes", "multipart_bytes", "max_tries",
)  # fmt: skip


def _require_usable(settings: RemoteSettings) -> None:
    for field_ in fields(settings):
        value = getattr(settings, field_.name)
        least = 1 if field_.name in _AT_LEAST_ONE else 0
        if isinstance(value, int) and not least <= value < 2**63:
            raise InvalidInputError(f"option 'secretStorage': {field_.name} is out of range")
