"""Permission to read virtual chunks, as text: options are all that Spark hands to its workers.

authorize       {"file:///data/": "local", "s3://bucket/": "environment"}
secretAccess    any other permission, as JSON (plain_values.py); the name makes Spark hide it from
                its pages and plans
"""

import json
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeAliasType, Union, cast, get_args, get_origin, get_type_hints

from frazil.engine.files.virtual_access import (
    NO_AUTHORIZATION,
    Home,
    VirtualChunkAccess,
    VirtualReads,
)
from frazil.errors import InvalidInputError
from frazil.format import storage_config as configs
from frazil.format.limits import Limits
from frazil.objectstore import credentials as creds
from frazil.objectstore.credentials import (
    AnyCredential,
    AzureAnonymousCredentials,
    AzureFromEnvCredentials,
    CredentialsForAzure,
    CredentialsForGcs,
    CredentialsForS3,
    GcsAnonymousCredentials,
    GcsFromEnvCredentials,
    HttpAccess,
    LocalFileSystemAccess,
    S3AnonymousCredentials,
    S3FromEnvCredentials,
)
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote.azure import AzurePlace
from frazil.objectstore.remote.gcs import GcsPlace
from frazil.objectstore.remote.place import HttpPlace, with_time_zone
from frazil.objectstore.remote.s3 import S3Place

# Stores, credentials and permissions as JSON: the only form in which an option may carry them.
#
# Users of SQL write options, so nothing in an option is unpickled, imported or evaluated. A value
# is an object with its `kind`, one of KINDS, and its fields; each field is checked against the type
# that the class declares. A function that gives credentials is no value: the driver calls it when a
# job is planned, and the credentials that it returns are sent.

_KIND = "kind"
# No class that holds a pickle may ever be added here: *RefreshableCredentials are left out.
KINDS: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        S3Place, GcsPlace, AzurePlace, HttpPlace, RemoteSettings,
        VirtualChunkAccess, VirtualReads, Home, Limits,
        configs.LocalStoreConfig, configs.S3StoreConfig, configs.S3CompatibleStoreConfig,
        configs.TigrisStoreConfig, configs.GcsStoreConfig, configs.AzureStoreConfig,
        configs.HttpStoreConfig, configs.S3Options,
        creds.CredentialsForS3, creds.CredentialsForGcs, creds.CredentialsForAzure,
        creds.LocalFileSystemAccess, creds.HttpAccess,
        creds.S3FromEnvCredentials, creds.S3AnonymousCredentials, creds.S3FixedCredentials,
        creds.S3StaticCredentials,
        creds.GcsFromEnvCredentials, creds.GcsAnonymousCredentials, creds.GcsFixedCredentials,
        creds.GcsServiceAccount, creds.GcsServiceAccountKey, creds.GcsApplicationCredentials,
        creds.GcsBearerToken,
        creds.AzureFromEnvCredentials, creds.AzureAnonymousCredentials,
        creds.AzureFixedCredentials, creds.AzureAccessKey, creds.AzureSasToken,
        creds.AzureBearerToken,
    )
}  # fmt: skip


def encode_values(values: Mapping[str, object]) -> str:
    """JSON text of named values. TypeError for one that is neither plain nor of KINDS."""
    return json.dumps({name: _encode(value) for name, value in values.items()})


def decode_values(option: str, text: str, expected: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, each of its expected type; one whose type allows None may be left out.

    Raises InvalidInputError that names the option and the field, never its content.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique)
        return _decode_fields("", document, expected, required=_required(expected))
    except _Wrong as wrong:
        where = f", {wrong.field}" if wrong.field else ""
        raise InvalidInputError(
            f"option {option!r} is not what frazil writes there{where}: expected {wrong.expected}"
        ) from None
    except (ValueError, TypeError, OverflowError, RecursionError):  # their text may hold secrets
        raise InvalidInputError(
            f"option {option!r} is not what frazil writes there: expected valid JSON and values"
            " within their limits"
        ) from None


def static_credentials(given: object) -> object:
    """Credentials as a function gives them now; other values as they are."""
    match given:
        case creds.S3RefreshableCredentials():
            return creds.S3FixedCredentials(_current(given))
        case creds.GcsRefreshableCredentials():
            return creds.GcsFixedCredentials(creds.GcsBearerToken(_current(given).bearer))
        case creds.AzureRefreshableCredentials():
            return creds.AzureFixedCredentials(_azure_static(_current(given)))
        case _:
            return given


def _current(given: Any) -> Any:
    current = given.current
    until = None if current is None else with_time_zone(current.expires_after)
    alive = current is not None and (until is None or until > datetime.now(UTC))
    return current if alive else given.fetch()


def _azure_static(timed: object) -> creds.AzureStaticCredentials:
    match timed:
        case creds.AzureTimedAccessKey(key):
            return creds.AzureAccessKey(key)
        case creds.AzureTimedSasToken(token):
            return creds.AzureSasToken(token)
        case creds.AzureTimedBearerToken(bearer):
            return creds.AzureBearerToken(bearer)
        case _:
            raise TypeError(f"not credentials for Azure: {timed!r}")


def _encode(value: object) -> Any:
    value = static_credentials(value)
    match value:
        case None | bool() | int() | str():
            return value
        case datetime():
            return value.isoformat()
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _encode(value[key]) for key in value}
        case tuple() | list() | AbstractSet():
            return [_encode(item) for item in value]
    kind = type(value)
    if KINDS.get(kind.__name__) is not kind or not is_dataclass(value):
        raise TypeError(f"{kind.__name__} has no plain form")
    return {_KIND: kind.__name__} | {
        field.name: _encode(getattr(value, field.name)) for field in fields(value)
    }


class _Wrong(Exception):  # noqa: N818 -- never leaves this module
    def __init__(self, field: str, expected: str) -> None:
        super().__init__(field)
        self.field = field
        self.expected = expected


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _Wrong("", "each name once")
    return dict(pairs)


def _required(expected: Mapping[str, Any]) -> AbstractSet[str]:
    return {name for name, kind in expected.items() if NoneType not in get_args(kind)}


def _decode_fields(
    field: str, given: object, expected: Mapping[str, Any], *, required: AbstractSet[str]
) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise _Wrong(field, "a JSON object")
    if not required <= given.keys() <= expected.keys():
        raise _Wrong(field, "the fields " + ", ".join(expected))
    return {
        name: _decode(f"{field}.{name}".lstrip("."), given[name], expected[name]) for name in given
    }


def _decode(field: str, given: Any, expected: Any) -> Any:
    """The value if it is of the type `expected`, an annotation. Raises _Wrong."""
    if isinstance(expected, TypeAliasType):
        expected = expected.__value__
    origin, arguments = get_origin(expected), get_args(expected)
    if origin in {Union, UnionType}:
        return _decode_union(field, given, arguments)
    if origin in {tuple, Collection}:
        return _decode_tuple(field, given, arguments)
    if origin in {Mapping, dict}:
        if not isinstance(given, dict):
            raise _Wrong(field, "an object")
        return {name: _decode(f"{field}[...]", given[name], arguments[1]) for name in given}
    return _decode_scalar(field, given, expected)


def _decode_scalar(field: str, given: Any, expected: Any) -> Any:
    if expected in _NAMES:
        if type(given) is not expected:
            raise _Wrong(field, _NAMES[expected])
        return given
    if expected is not datetime and not issubclass(expected, Enum):
        return _decode_kind(field, given, expected)
    if not isinstance(given, str):
        raise _Wrong(field, "text")
    return datetime.fromisoformat(given) if expected is datetime else expected(given)


_NAMES = {str: "text", int: "a whole number", bool: "true or false", NoneType: "null"}


def _decode_union(field: str, given: Any, arguments: tuple[Any, ...]) -> Any:
    if given is None and NoneType in arguments:
        return None
    kinds = [kind for kind in arguments if kind is not NoneType]
    if isinstance(given, dict) and all(
        isinstance(kind, type) and is_dataclass(kind) for kind in kinds
    ):
        return _decode_kind(field, given, tuple(kinds))
    if len(kinds) != 1:
        raise _Wrong(field, "one of " + ", ".join(getattr(kind, "__name__", "") for kind in kinds))
    return _decode(field, given, kinds[0])


def _decode_tuple(field: str, given: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(given, list):
        raise _Wrong(field, "a list")
    if len(arguments) == 1 or arguments[1:] == (...,):
        return tuple(_decode(f"{field}[...]", item, arguments[0]) for item in given)
    if len(given) != len(arguments):
        raise _Wrong(field, f"a list of {len(arguments)}")
    pairs = zip(given, arguments, strict=True)
    return tuple(_decode(f"{field}[...]", item, kind) for item, kind in pairs)


def _decode_kind(field: str, given: Any, expected: type[Any] | tuple[type[Any], ...]) -> Any:
    name = given.get(_KIND) if isinstance(given, dict) else None
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None or not issubclass(kind, expected):
        fitting = ", ".join(name for name, known in KINDS.items() if issubclass(known, expected))
        raise _Wrong(field, f"an object whose kind is {fitting}")
    rest = {name: item for name, item in given.items() if name != _KIND}
    required = {
        each.name
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    }
    return kind(**_decode_fields(field, rest, _hints(kind), required=required))


def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


_S3: dict[str, AnyCredential] = {
    "anonymous": CredentialsForS3(S3AnonymousCredentials()),
    "environment": CredentialsForS3(S3FromEnvCredentials()),
}
_GCS: dict[str, AnyCredential] = {
    "anonymous": CredentialsForGcs(GcsAnonymousCredentials()),
    "environment": CredentialsForGcs(GcsFromEnvCredentials()),
}
_AZURE: dict[str, AnyCredential] = {
    "anonymous": CredentialsForAzure(AzureAnonymousCredentials()),
    "environment": CredentialsForAzure(AzureFromEnvCredentials()),
}
_WEB: dict[str, AnyCredential] = {"http": HttpAccess()}
_LOCAL: dict[str, AnyCredential] = {"local": LocalFileSystemAccess()}
_WORDS = {
    "file": _LOCAL,
    "http": _WEB, "https": _WEB,
    "s3": _S3, "tigris": _S3,
    "gs": _GCS, "gcs": _GCS,
    "az": _AZURE, "azure": _AZURE, "abfs": _AZURE,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AccessText:
    """Access to virtual chunks as text: at most one of the two options."""

    plain: str = ""
    secret: str = field(default="", repr=False)


NO_ACCESS = AccessText()


def format_access(access: VirtualChunkAccess) -> AccessText:
    words: dict[str, str] = {}
    for prefix, credentials in access.credentials.items():
        known = _known(prefix)
        fitting = [word for word in known if known[word] == credentials]
        words.update((prefix, word) for word in fitting)
    if access == VirtualChunkAccess({prefix: access.credentials[prefix] for prefix in words}):
        return AccessText(plain=json.dumps(words)) if words else NO_ACCESS
    return AccessText(secret=encode_values({"access": access}))


def parse_access(text: AccessText) -> VirtualChunkAccess:
    if text.secret:
        access = decode_values("secretAccess", text.secret, {"access": VirtualChunkAccess})[
            "access"
        ]
        return cast("VirtualChunkAccess", access)
    if not text.plain:
        return NO_AUTHORIZATION
    try:
        given = json.loads(text.plain)
        if not isinstance(given, dict):
            raise TypeError(f"it is a {type(given).__name__}")  # noqa: TRY301 -- told below
        return VirtualChunkAccess({prefix: _credentials(prefix, given[prefix]) for prefix in given})
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError(
            f"option 'authorize' is {text.plain!r}, expected a JSON object of url prefixes: {error}"
        ) from error


def _credentials(prefix: str, word: object) -> AnyCredential:
    known = _known(prefix)
    if not isinstance(word, str) or word not in known:
        expected = " or ".join(map(repr, known)) or "another url prefix"
        raise ValueError(f"{prefix!r} is given {word!r}, expected {expected}")
    return known[word]


def _known(prefix: str) -> dict[str, AnyCredential]:
    return _WORDS.get(prefix.partition(":")[0].lower(), {})
