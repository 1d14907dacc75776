"""Google Cloud Storage."""

from dataclasses import field
from typing import TYPE_CHECKING, Any

from frazil.dataclass import dataclass
from frazil.objectstore.credentials import (
    GcsAnonymousCredentials,
    GcsApplicationCredentials,
    GcsBearerCredential,
    GcsBearerToken,
    GcsCredentials,
    GcsFixedCredentials,
    GcsFromEnvCredentials,
    GcsRefreshableCredentials,
    GcsServiceAccount,
    GcsServiceAccountKey,
    GcsStaticCredentials,
)
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote.place import (
    Headers,
    RefreshedCredentials,
    ServerFeatures,
    join_prefix,
    with_time_zone,
)
from frazil.objectstore.remote.remote_requests import Role, client_options, retry_options

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

_FEATURES = ServerFeatures(counts_generations=True, encodes_names=True, copies_onto_itself=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsPlace:
    bucket: str
    prefix: str
    credentials: GcsCredentials
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold secrets
    read_headers: Headers = field(default=(), repr=False)
    write_headers: Headers = field(default=(), repr=False)

    @property
    def location(self) -> str:
        return join_prefix(f"gs://{self.bucket}", self.prefix)

    @property
    def features(self) -> ServerFeatures:
        return _FEATURES

    @property
    def is_self_contained(self) -> bool:
        return isinstance(self.credentials, GcsAnonymousCredentials)  # others may name a file

    def connect(self, role: Role, settings: RemoteSettings) -> "Client":
        from obstore.store import GCSStore  # noqa: PLC0415 - `import frazil` stays light

        headers = self.read_headers if role == "read" else self.write_headers
        config = dict(self.config)
        allow_http = any(value.startswith("http:") for value in config.values())
        options = client_options(settings, role, allow_http=allow_http, headers=headers)
        return GCSStore(
            self.bucket,
            config=config | _config(self.credentials),  # type: ignore[arg-type]  # a TypedDict
            client_options=options,  # type: ignore[arg-type]  # same
            retry_config=retry_options(settings),
            credential_provider=_provider(self.credentials),
        )


def _config(credentials: GcsCredentials) -> dict[str, Any]:
    match credentials:
        case GcsAnonymousCredentials():
            # The flag alone would not keep obstore from asking the machine it runs on for a token
            # before it writes.
            return {"skip_signature": True, "bearer_token": "anonymous"}
        case GcsFixedCredentials(static):
            return _static_config(static)
        case GcsFromEnvCredentials() | GcsRefreshableCredentials():
            return {}
        case _:
            raise TypeError(f"not credentials for Google Cloud Storage: {credentials!r}")


def _static_config(credentials: GcsStaticCredentials) -> dict[str, Any]:
    match credentials:
        case GcsServiceAccount(path):
            return {"service_account": path}
        case GcsServiceAccountKey(key):
            return {"service_account_key": key}
        case GcsApplicationCredentials(path):
            return {"application_credentials": path}
        case GcsBearerToken():
            return {}
        case _:
            raise TypeError(f"not credentials for Google Cloud Storage: {credentials!r}")


def _provider(credentials: GcsCredentials) -> Any:
    match credentials:
        case GcsRefreshableCredentials(current=current):
            return RefreshedCredentials(credentials.fetch, current, _as_obstore)
        case GcsFixedCredentials(GcsBearerToken(token)):
            return lambda: _as_obstore(GcsBearerCredential(token))
        case _:
            return None


def _as_obstore(credential: GcsBearerCredential) -> dict[str, object]:
    return {"token": credential.bearer, "expires_at": with_time_zone(credential.expires_after)}
