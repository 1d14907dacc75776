"""S3 and compatible servers."""

from collections.abc import Callable
from dataclasses import field, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from frazil.dataclass import dataclass
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.objectstore.credentials import (
    S3AnonymousCredentials,
    S3Credentials,
    S3FixedCredentials,
    S3FromEnvCredentials,
    S3RefreshableCredentials,
    S3StaticCredentials,
)
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote.aws_environment import find_profile
from frazil.objectstore.remote.place import (
    Headers,
    RefreshedCredentials,
    ServerFeatures,
    join_prefix,
    with_time_zone,
)
from frazil.objectstore.remote.remote_reads import Mark
from frazil.objectstore.remote.remote_requests import Role, client_options, retry_options
from frazil.objectstore.remote.remote_store import LazyStore, RemoteStore

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

# By the names that a configuration has for them; obstore computes no others.
_CHECKSUMS = {"sha256": "SHA256", "crc64_nvme": "CRC64NVME"}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Place:
    bucket: str
    prefix: str
    credentials: S3Credentials
    region: str | None = None
    endpoint_url: str | None = None
    allow_http: bool = False
    force_path_style: bool = False
    stream_timeout_s: int = 60
    requester_pays: bool = False
    checksum: str | None = None
    read_headers: Headers = field(default=(), repr=False)
    write_headers: Headers = field(default=(), repr=False)
    writable: bool = True
    keeps_metadata: bool = True
    rooted: bool = False  # keys begin with a slash; see BucketRoot
    scheme: str = "s3"

    @property
    def location(self) -> str:
        return join_prefix(f"{self.scheme}://{self.bucket}", self.prefix)

    @property
    def features(self) -> ServerFeatures:
        return ServerFeatures(
            # What goes by the body or the query of a request knows nothing of the slash.
            bulk_deletes=not self.rooted,
            lists_by_prefix=not self.rooted,
            lists_in_order=not self.rooted and not self.bucket.endswith("--x-s3"),
            writable=self.writable,
            keeps_metadata=self.keeps_metadata,
        )

    @property
    def is_self_contained(self) -> bool:
        return isinstance(self.credentials, S3AnonymousCredentials | S3FixedCredentials)

    def connect(self, role: Role, settings: RemoteSettings) -> "Client":
        from obstore.store import S3Store  # noqa: PLC0415 - `import frazil` stays light

        place = self._completed()
        headers = self.read_headers if role == "read" else self.write_headers
        options = client_options(
            settings,
            role,
            allow_http=self.allow_http or (self.endpoint_url or "").startswith("http:"),
            headers=headers,
            stream_timeout_s=self.stream_timeout_s,
        )
        return S3Store(
            # obstore would drop a slash at the beginning of a key, but not at the bucket's end.
            f"{self.bucket}/" if self.rooted else self.bucket,
            config=place.obstore_config(),
            client_options=options,  # type: ignore[arg-type]  # a TypedDict, built step by step
            retry_config=retry_options(settings),
            credential_provider=credential_provider(place.credentials),
        )

    def _completed(self) -> "S3Place":
        """This place, with the profile in the user's files if the environment is to be used."""
        if not isinstance(self.credentials, S3FromEnvCredentials):
            return self
        profile = find_profile()
        found = profile.credentials
        return replace(
            self,
            credentials=self.credentials if found is None else S3FixedCredentials(found),
            region=self.region or profile.region,
        )

    def obstore_config(self) -> Any:
        endpoint, virtual_hosted = self._endpoint()
        config: dict[str, object] = {
            "virtual_hosted_style_request": virtual_hosted,
            "skip_signature": isinstance(self.credentials, S3AnonymousCredentials),
            "request_payer": self.requester_pays,
            "disable_bulk_delete": self.rooted,
        }
        if endpoint is not None:
            config["endpoint"] = endpoint
        if self.region is not None:
            config["region"] = self.region
        if self.checksum is not None:
            config["checksum_algorithm"] = _CHECKSUMS[self.checksum]
        return config

    def _endpoint(self) -> tuple[str | None, bool]:
        """The address of the bucket's parent, or of the bucket if that is part of the host."""
        path_style = self.force_path_style or self.rooted
        if self.endpoint_url is None:
            return None, not (path_style or "." in self.bucket)
        endpoint = self.endpoint_url.rstrip("/")
        parts = urlsplit(endpoint)
        if path_style or _cannot_have_subdomains(parts.hostname or ""):
            return endpoint, False
        return parts._replace(netloc=f"{self.bucket}.{parts.netloc}").geturl(), True


def require_checksum(name: str) -> None:
    """Raises StorageError for an algorithm that obstore does not know."""
    if name not in _CHECKSUMS:
        known = ", ".join(sorted(_CHECKSUMS))
        raise StorageError(
            f"checksum algorithm {name} is not available here, only {known}",
            kind="storage-config",
        )


def _cannot_have_subdomains(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def credential_provider(credentials: S3Credentials) -> Any:
    """A credential provider for obstore; None to let it search the environment.

    All others come through a function, even none at all, or obstore would mix them with what it
    finds in the environment.
    """
    match credentials:
        case S3FromEnvCredentials():
            return None
        case S3AnonymousCredentials():
            return lambda: _as_obstore(S3StaticCredentials("anonymous", "anonymous"))
        case S3FixedCredentials(static):
            return lambda: _as_obstore(static)
        case S3RefreshableCredentials(current=current):
            return RefreshedCredentials(credentials.fetch, current, _as_obstore)
        case _:
            raise TypeError(f"not credentials for S3: {credentials!r}")


def _as_obstore(static: S3StaticCredentials) -> dict[str, object]:
    return {
        "access_key_id": static.access_key_id,
        "secret_access_key": static.secret_access_key,
        "token": static.session_token,
        "expires_at": with_time_zone(static.expires_after),
    }


# The root of an S3 bucket, where keys may begin with a slash
#
# Early releases of the reference wrote `/repo` instead of `repo` if there was no prefix. The store
# looks for objects that every such repository has, under both names.


class BucketRoot(LazyStore):
    def __init__(
        self, place: S3Place, probes: tuple[str, ...], settings: RemoteSettings | None = None
    ) -> None:
        super().__init__(settings)
        self._place = place
        self._probes = probes

    @property
    def writable(self) -> bool:
        return self._place.writable

    @property
    def place(self) -> S3Place:
        """The place of keys that begin without a slash."""
        return self._place

    @property
    def probes(self) -> tuple[str, ...]:
        """Keys that are looked for under both names."""
        return self._probes

    def find_place(self) -> S3Place:
        modern = RemoteStore(self._place, self._settings)
        rooted = RemoteStore(replace(self._place, rooted=True), self._settings)
        for key in self._probes:
            found, found_rooted = _find(modern, key), _find(rooted, key)
            if found is not None and found_rooted is not None and found != found_rooted:
                raise StorageError(
                    f"there are both {key!r} and {'/' + key!r} in {self._place.location}: it is not"
                    " clear which of them is meant; legacy_rooted_keys says it",
                    kind="storage-other",
                )
            if found is not None:  # and some servers take two slashes for one
                return self._place
            if found_rooted is not None:
                return replace(self._place, rooted=True)
        return self._place

    def with_settings(self, change: Callable[[RemoteSettings], RemoteSettings]) -> Self:
        settings = change(self._settings)
        return self if settings == self._settings else type(self)(*self._parts, settings)

    @property
    def _parts(self) -> tuple[S3Place, tuple[str, ...]]:
        return self._place, self._probes

    def __repr__(self) -> str:
        return f"BucketRoot({self._place.location!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (*self._parts, self._settings)


def _find(store: RemoteStore, key: str) -> Mark | None:
    try:
        return store.reader().head(key, key=key)
    except ObjectNotFoundError:
        return None
