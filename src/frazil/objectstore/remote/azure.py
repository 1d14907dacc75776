"""Azure Blob Storage."""

from dataclasses import field
from typing import TYPE_CHECKING, Any

from frazil.dataclass import dataclass
from frazil.objectstore.credentials import (
    AzureAccessKey,
    AzureAnonymousCredentials,
    AzureBearerToken,
    AzureCredentials,
    AzureFixedCredentials,
    AzureFromEnvCredentials,
    AzureRefreshableCredential,
    AzureRefreshableCredentials,
    AzureSasToken,
    AzureStaticCredentials,
    AzureTimedAccessKey,
    AzureTimedBearerToken,
    AzureTimedSasToken,
)
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote.place import (
    RefreshedCredentials,
    ServerFeatures,
    join_prefix,
    with_time_zone,
)
from frazil.objectstore.remote.remote_requests import Role, client_options, retry_options

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

_FEATURES = ServerFeatures(
    quotes_etags=True, encodes_names=True, suffix_ranges=False, copies_onto_itself=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzurePlace:
    account: str
    container: str
    prefix: str
    credentials: AzureCredentials
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold secrets

    @property
    def location(self) -> str:
        return join_prefix(f"az://{self.container}", self.prefix)

    @property
    def features(self) -> ServerFeatures:
        return _FEATURES

    @property
    def is_self_contained(self) -> bool:
        return isinstance(self.credentials, AzureAnonymousCredentials | AzureFixedCredentials)

    def connect(self, role: Role, settings: RemoteSettings) -> "Client":
        from obstore.store import AzureStore  # noqa: PLC0415 - `import frazil` stays light

        config = dict(self.config)
        allow_http = any(value.startswith("http:") for value in config.values())
        options = client_options(settings, role, allow_http=allow_http, headers=())
        if isinstance(self.credentials, AzureAnonymousCredentials):
            config["skip_signature"] = "true"
        return AzureStore(
            self.container,
            account_name=self.account,
            config=config,  # type: ignore[arg-type]  # a TypedDict
            client_options=options,  # type: ignore[arg-type]  # same
            retry_config=retry_options(settings),
            credential_provider=_provider(self.credentials),
        )


def _provider(credentials: AzureCredentials) -> Any:
    """A credential provider for obstore; None to let it search the environment, or not sign.

    Static ones come through a function too, or obstore would mix them with what it finds there.
    """
    match credentials:
        case AzureFromEnvCredentials() | AzureAnonymousCredentials():
            return None
        case AzureFixedCredentials(static):
            given = _static_as_obstore(static)
            return lambda: given
        case AzureRefreshableCredentials(current=current):
            return RefreshedCredentials(credentials.fetch, current, _as_obstore)
        case _:
            raise TypeError(f"not credentials for Azure: {credentials!r}")


def _static_as_obstore(credentials: AzureStaticCredentials) -> dict[str, object]:
    match credentials:
        case AzureAccessKey(key):
            return {"access_key": key, "expires_at": None}
        case AzureSasToken(token):
            return {"sas_token": token, "expires_at": None}
        case AzureBearerToken(token):
            return {"token": token, "expires_at": None}
        case _:
            raise TypeError(f"not credentials for Azure: {credentials!r}")


def _as_obstore(credential: AzureRefreshableCredential) -> dict[str, object]:
    match credential:
        case AzureTimedAccessKey(key=key, expires_after=until):
            return {"access_key": key, "expires_at": with_time_zone(until)}
        case AzureTimedSasToken(token=token, expires_after=until):
            return {"sas_token": token, "expires_at": with_time_zone(until)}
        case AzureTimedBearerToken(bearer=bearer, expires_after=until):
            return {"token": bearer, "expires_at": with_time_zone(until)}
        case _:
            raise TypeError(f"not a credential for Azure: {credential!r}")
