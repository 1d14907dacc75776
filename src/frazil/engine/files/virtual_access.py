"""Authorization to read virtual chunks, which are in files outside of the repository.

A repository names the locations of its virtual chunks, which alone gives no access. The caller that
opens it authorizes containers, with credentials for each. None of this is ever stored.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import field, fields, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError, StorageError
from frazil.format.limits import DEFAULT_LIMITS, Limits
from frazil.format.storage_config import (
    AzureStoreConfig,
    Containers,
    GcsStoreConfig,
    HttpStoreConfig,
    LocalStoreConfig,
    ObjectStoreConfig,
    S3CompatibleStoreConfig,
    S3Options,
    S3StoreConfig,
    StorageSettings,
    TigrisStoreConfig,
    VirtualChunkContainer,
)
from frazil.lazy import lazy_module
from frazil.objectstore import remote
from frazil.objectstore.protocol import ObjectStore

if TYPE_CHECKING:
    from frazil.objectstore import credentials as creds
else:
    creds = lazy_module("frazil.objectstore.credentials")

# Endpoints of virtual chunk containers that a url prefix alone does not authorize.
#
# A caller that authorizes `s3://bucket/` names a bucket, and means the platform's own servers. A
# container that the repository stores may name another server for the bucket, or a proxy: a
# stranger would then choose which hosts receive requests, and signatures made for them. So the
# caller must authorize the endpoint as well: with a configuration that has the container in it, by
# opening a repository whose own storage has that endpoint, or by naming the endpoint.

ANY = "*"
# Servers that only the platform itself can have. Not all of amazonaws.com: customers have hosts.
_OF_AMAZON = (
    r"s3(?:-fips|-accelerate|-[a-z]+-[a-z]+-\d)?(?:\.dualstack)?(?:\.[a-z]{2}(?:-[a-z]+)+-\d)?"
    r"\.amazonaws\.com(?:\.cn)?"
)
_OF_TIGRIS = {"t3.storage.dev", "fly.storage.tigris.dev", "t3.storageapi.dev"}
# Options that say how long to wait or which account is meant; any other may redirect requests.
_HARMLESS = (
    r"(?:azure_storage_)?(?:account|account_name)|(?:google_)?(?:bucket|bucket_name)|region"
    r"|(?:connect_|read_)?timeout|pool_idle_timeout|pool_max_idle_per_host|user_agent"
    r"|(?:azure_|google_|aws_)?allow_http|http[12]_only|http2_max_frame_size"
    r"|http2_keep_alive_(?:interval|timeout|while_idle)"
    r"|(?:google_|azure_|aws_)?skip_signature|default_content_type|randomize_addresses"
)
_LEADING_HEADERS = r"host|proxy-.*|x-forwarded-.*|forwarded"


def unauthorized_endpoint(container: VirtualChunkContainer, trusted: Collection[str]) -> str | None:
    """The first endpoint or option that the caller has not authorized; None if there is none."""
    if ANY in trusted:
        return None
    found = _endpoint_override(container.store)
    if found is None or _origin(found) in {_origin(each) for each in trusted}:
        return None
    return found


def endpoint_of(store: ObjectStoreConfig) -> str | None:
    """The endpoint that a store configuration names; None for the platform's own."""
    match store:
        case S3StoreConfig(options) | S3CompatibleStoreConfig(options) | TigrisStoreConfig(options):
            return options.endpoint_url
        case AzureStoreConfig(opts) | GcsStoreConfig(opts):
            return _leading_option(opts or {})
        case _:
            return None


def _endpoint_override(store: ObjectStoreConfig) -> str | None:
    match store:
        case S3StoreConfig(options) | S3CompatibleStoreConfig(options):
            return _leading_endpoint(options)
        case TigrisStoreConfig(options):
            host = urlsplit(options.endpoint_url or "https://t3.storage.dev").hostname
            return None if host in _OF_TIGRIS else options.endpoint_url
        case GcsStoreConfig(opts) | AzureStoreConfig(opts):
            return _leading_option(opts or {})
        case HttpStoreConfig(opts, headers):
            named = (name for name in headers or {} if re.fullmatch(_LEADING_HEADERS, name.lower()))
            return _leading_option(opts or {}) or next(named, None)
        case _:
            return None


def _leading_endpoint(options: S3Options) -> str | None:
    endpoint = options.endpoint_url
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    is_theirs = parts.scheme == "https" and re.fullmatch(_OF_AMAZON, parts.hostname or "")
    return None if is_theirs else endpoint


def _leading_option(opts: Mapping[str, str]) -> str | None:
    for name, value in opts.items():
        if not re.fullmatch(_HARMLESS, name.lower()):
            return value if "://" in value else f"{name}={value}"
    return None


def _origin(endpoint: str) -> str:
    """Compared without what follows the host: `https://x.org/` and `https://X.org` are one."""
    parts = urlsplit(endpoint)
    if not parts.netloc:
        return endpoint
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}"


_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualReads:
    """Options for fetching parts of files.

    Parts of one file that are at most `max_gap_bytes` apart are fetched by one request, unless it
    would be for more than `max_request_bytes`; one chunk is always one request. Of a local file,
    where a request costs little, parts are at most 4 KiB apart. `max_clients` connections are
    kept, one for each container and bucket or host. Web servers may redirect to public
    addresses, and to their own; `check_redirects=False` lets them redirect anywhere, and
    saves one small request for each file.
    """

    max_gap_bytes: int = _MIB // 2
    max_request_bytes: int = 16 * _MIB
    max_clients: int = 50
    check_redirects: bool = True

    def __post_init__(self) -> None:
        if self.max_gap_bytes < 0 or self.max_request_bytes < 0 or self.max_clients < 1:
            raise ValueError(f"not a way to read: {self}")


@dataclass(frozen=True, slots=True)
class Home:
    """The store of the repository itself, and the credentials for it."""

    store: ObjectStoreConfig
    credentials: "creds.AnyCredential | None" = None


@dataclass(frozen=True, slots=True)
class VirtualChunkAccess:
    """Authorization that a caller gives when opening a repository.

    `credentials` are by url prefix of the container, with or without its last slash. With
    `default_containers` every location of S3, Google, Azure and Tigris is covered, by containers
    named after the schemes (`s3`, `gcs`, `gs`, `azure`, `az`, `abfs`, `tigris`) that yield to
    those of the repository. One for which no credentials are given under its name is read as the
    repository itself is, if that is on the same platform: in its region, with its credentials.
    Writers of the repository can then make its readers fetch any object that the readers may read,
    so this is for trusted repositories.

    A container that the repository stores may name a server of its own for a bucket. It is asked
    only if it is one of `endpoints`, if the repository itself is there, or if the container is
    given in the configuration when opening; `endpoints=["*"]` trusts all of them.
    """

    credentials: "Mapping[str, creds.AnyCredential | None]" = field(
        default_factory=lambda: MappingProxyType({})
    )
    default_containers: bool = field(default=False, kw_only=True)
    reads: VirtualReads = field(default_factory=VirtualReads, kw_only=True)
    home: Home | None = field(default=None, kw_only=True, repr=False)  # filled in when opening
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)
    endpoints: Collection[str] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "credentials", _check_credentials(self.credentials))
        if isinstance(self.endpoints, str):
            raise TypeError("endpoints is text, expected a list of endpoints")
        object.__setattr__(self, "endpoints", tuple(self.endpoints))

    def __reduce__(self) -> tuple[object, ...]:  # a view of a dict cannot be pickled
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        return _revive, ({**state, "credentials": dict(self.credentials)},)


def _revive(state: dict[str, Any]) -> VirtualChunkAccess:
    return VirtualChunkAccess(**state)


def _check_credentials(given: object) -> "Mapping[str, creds.AnyCredential | None]":
    if not isinstance(given, Mapping):
        raise TypeError(f"{type(given).__name__!r} object is not a mapping of credentials")
    for prefix, credentials in given.items():
        if not isinstance(prefix, str):
            raise TypeError(f"{type(prefix).__name__!r} object is not a url prefix")
        if credentials is not None and not isinstance(credentials, creds.Credentials):
            raise TypeError(
                f"{type(credentials).__qualname__!r} object is not an instance of 'Credentials':"
                " wrap it with `containers_credentials`"
            )
    return MappingProxyType(dict(given))


NO_AUTHORIZATION = VirtualChunkAccess()


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to read the objects of one container."""

    container: VirtualChunkContainer
    credentials: "creds.AnyCredential | None"


@dataclass(frozen=True, slots=True)
class VirtualAccess:
    """Authorized containers of one repository; pickled with its sessions."""

    containers: Containers = field(default_factory=Containers)
    fallbacks: Containers = field(default_factory=Containers)  # where no other covers a location
    grants: tuple[Grant, ...] = ()
    reads: VirtualReads = field(default_factory=VirtualReads)
    settings: StorageSettings = field(default_factory=StorageSettings)
    limits: Limits = DEFAULT_LIMITS
    refused: tuple[tuple[str, str], ...] = ()  # prefixes of containers, and their endpoints

    @classmethod
    def of(
        cls,
        containers: Mapping[str, VirtualChunkContainer] | None,
        given: VirtualChunkAccess = NO_AUTHORIZATION,
        *,
        settings: StorageSettings | None = None,
    ) -> "VirtualAccess":
        """Raises StorageError if credentials are not of the kind that their container needs."""
        own = Containers.usable((containers or {}).values())
        grants: list[Grant] = []
        refused: dict[str, str] = {}
        for each in own.listed:
            elsewhere = unauthorized_endpoint(each, given.endpoints)
            for key in (each.url_prefix, each.url_prefix.removesuffix("/")):
                if key in given.credentials and elsewhere is not None:
                    refused[each.url_prefix] = elsewhere
                elif key in given.credentials:
                    grants.append(
                        Grant(each, _match_credentials(each.store, given.credentials[key]))
                    )
        fallbacks: Containers = Containers()
        if given.default_containers:
            defaults = [_default_grant(each, given) for each in _default_containers()]
            fallbacks = Containers.of(grant.container for grant in defaults)
            grants += [grant for grant in defaults if grant.credentials is not None]
        return cls(
            own,
            fallbacks,
            tuple(grants),
            given.reads,
            settings or StorageSettings(),
            given.limits,
            tuple(refused.items()),
        )

    def all_containers(self) -> Containers:
        return Containers((*self.containers.listed, *self.fallbacks.listed))

    def grant_for(self, location: str) -> Grant:
        """The grant for a normalized, complete location. Raises InvalidInputError without one."""
        container = self.containers.find(location) or self.fallbacks.find(location)
        if container is None:
            raise InvalidInputError(
                f"no virtual chunk container can handle the chunk location ({location}), edit the"
                " repository configuration adding a virtual chunk container for the chunk"
                " references",
                kind="no-container-for-virtual-chunk",
            )
        for grant in self.grants:
            if grant.container is container or grant.container == container:
                return grant
        raise unauthorized_error(container, dict(self.refused).get(container.url_prefix))

    def local_grants(self) -> tuple[Grant, ...]:
        return tuple(
            grant for grant in self.grants if isinstance(grant.container.store, LocalStoreConfig)
        )


def home_of(store: ObjectStore) -> Home | None:
    """The store as one of virtual chunks; None if it is on no platform of default containers."""
    if store.place is None:  # as of a directory: nothing of `remote` has to be loaded
        return None
    match store.place:
        case remote.S3Place() as place:
            kind = TigrisStoreConfig if place.scheme == "tigris" else S3StoreConfig
            return Home(kind(_s3_options(place)), creds.CredentialsForS3(place.credentials))
        case remote.GcsPlace() as place:
            return Home(
                GcsStoreConfig(dict(place.config)), creds.CredentialsForGcs(place.credentials)
            )
        case remote.AzurePlace() as place:
            opts = {"account": place.account, **dict(place.config)}
            return Home(AzureStoreConfig(opts), creds.CredentialsForAzure(place.credentials))
        case _:
            return None


def trust_home_endpoint(
    access: VirtualChunkAccess, store: ObjectStore, *, is_given: bool
) -> VirtualChunkAccess:
    """Adds the repository's own endpoint, or all endpoints if the caller gave the containers."""
    if not access.credentials or ANY in access.endpoints:
        return access
    home = None if is_given else home_of(store)
    endpoint = ANY if is_given else None if home is None else endpoint_of(home.store)
    if endpoint is None or endpoint in access.endpoints:
        return access
    return replace(access, endpoints=(*access.endpoints, endpoint))


def _s3_options(place: "remote.S3Place") -> S3Options:
    return S3Options(
        region=place.region,
        endpoint_url=place.endpoint_url,
        allow_http=place.allow_http,
        force_path_style=place.force_path_style,
        network_stream_timeout_seconds=place.stream_timeout_s,
        requester_pays=place.requester_pays,
    )


def unauthorized_error(
    container: VirtualChunkContainer, elsewhere: str | None = None
) -> InvalidInputError:
    named = "" if container.name is None else f" (container: {container.name})"
    if elsewhere is not None:
        return InvalidInputError(
            f"the repository says that {container.url_prefix}{named} is to be read by way of"
            f" {elsewhere}, which you have not authorized: if you trust it, give"
            f" VirtualChunkAccess(..., endpoints=[{elsewhere!r}]), or a config with this container",
            kind="unauthorized-virtual-chunk-container",
        )
    return InvalidInputError(
        "a virtual chunk in this repository resolves to the url prefix"
        f" {container.url_prefix}{named}, to be able to fetch the chunk you need to authorize the"
        " virtual chunk container when you open/create the repository",
        kind="unauthorized-virtual-chunk-container",
    )


def _match_credentials(
    store: ObjectStoreConfig, given: "creds.AnyCredential | None"
) -> "creds.AnyCredential":
    """The credentials if they are of the right kind; None means the least that could work."""
    credentials = _default_credentials(store) if given is None else given
    if credentials is None or not isinstance(credentials, _kinds().get(type(store), ())):
        raise StorageError(_mismatch_message(store, given), kind="storage-other")
    return credentials


@cache
def _kinds() -> "Mapping[type[ObjectStoreConfig], type[creds.AnyCredential]]":
    """The kind of credentials for each kind of store."""
    return {
        LocalStoreConfig: creds.LocalFileSystemAccess,
        HttpStoreConfig: creds.HttpAccess,
        S3StoreConfig: creds.CredentialsForS3,
        S3CompatibleStoreConfig: creds.CredentialsForS3,
        TigrisStoreConfig: creds.CredentialsForS3,
        GcsStoreConfig: creds.CredentialsForGcs,
        AzureStoreConfig: creds.CredentialsForAzure,
    }


def _default_credentials(store: ObjectStoreConfig) -> "creds.AnyCredential | None":
    match store:
        case LocalStoreConfig():
            return creds.LocalFileSystemAccess()
        case HttpStoreConfig():
            return creds.HttpAccess()
        case GcsStoreConfig():
            return creds.CredentialsForGcs(creds.GcsAnonymousCredentials())
        case S3StoreConfig(options) | S3CompatibleStoreConfig(options) | TigrisStoreConfig(options):
            anonymous = options.anonymous
            return creds.CredentialsForS3(
                creds.S3AnonymousCredentials() if anonymous else creds.S3FromEnvCredentials()
            )
        case _:
            return None


def _mismatch_message(store: ObjectStoreConfig, given: "creds.AnyCredential | None") -> str:
    match store:
        case LocalStoreConfig():
            return "local file storage does not accept credentials"
        case HttpStoreConfig():
            return "http storage does not support credentials yet"
        case _:
            return (
                "Virtual chunk container credentials do not match store type."
                f" store={store!r}, credentials={given!r}"
            )


# The default containers of the design document.


def _default_containers() -> list[VirtualChunkContainer]:
    stores: dict[str, ObjectStoreConfig] = {
        "s3": S3StoreConfig(S3Options()),
        "gcs": GcsStoreConfig(),
        "gs": GcsStoreConfig(),
        "azure": AzureStoreConfig(),
        "az": AzureStoreConfig(),
        "abfs": AzureStoreConfig(),
        "tigris": TigrisStoreConfig(S3Options()),
    }
    return [VirtualChunkContainer(f"{name}://", store, name) for name, store in stores.items()]


def _default_grant(container: VirtualChunkContainer, given: VirtualChunkAccess) -> Grant:
    """Uses credentials under the container's name, or else those of the repository's own store."""
    credentials: creds.AnyCredential | None = None
    if given.home is not None and type(given.home.store) is type(container.store):
        container = replace(container, store=given.home.store)
        credentials = given.home.credentials
    for key in (container.name or "", container.url_prefix):
        if key in given.credentials:
            credentials = _match_credentials(container.store, given.credentials[key])
    return Grant(container, credentials)
