"""Azure Blob Storage."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
from frazil.objectstore.remote_place import Habits, aware, joined
from frazil.objectstore.remote_s3 import Refreshing
from frazil.objectstore.remote_settings import RemoteSettings, Role, client_options, retry_options

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

_HABITS = Habits(quotes_etags=True, encodes_names=True, suffix_ranges=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzurePlace:
    account: str
    container: str
    prefix: str
    credentials: AzureCredentials
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold secrets

    @property
    def location(self) -> str:
        return joined(f"az://{self.container}", self.prefix)

    @property
    def habits(self) -> Habits:
        return _HABITS

    def connect(self, role: Role, settings: RemoteSettings) -> "Client":
        from obstore.store import AzureStore  # noqa: PLC0415 - `import frazil` stays light

        config = dict(self.config)
        allow_http = any(value.startswith("http:") for value in config.values())
        options = client_options(settings, role, allow_http=allow_http, headers=())
        return AzureStore(
            self.container,
            account_name=self.account,
            config=config | _config(self.credentials),  # type: ignore[arg-type]  # a TypedDict
            client_options=options,  # type: ignore[arg-type]  # same
            retry_config=retry_options(settings),
            credential_provider=_provider(self.credentials),
        )


def _config(credentials: AzureCredentials) -> dict[str, Any]:
    match credentials:
        case AzureAnonymousCredentials():
            return {"skip_signature": True}
        case AzureFixedCredentials(static):
            return _static_config(static)
        case AzureFromEnvCredentials() | AzureRefreshableCredentials():
            return {}
        case _:
            raise TypeError(f"not credentials for Azure: {credentials!r}")


def _static_config(credentials: AzureStaticCredentials) -> dict[str, Any]:
    match credentials:
        case AzureAccessKey(key):
            return {"account_key": key}
        case AzureSasToken(token):
            return {"sas_key": token}
        case AzureBearerToken(token):
            return {"token": token}
        case _:
            raise TypeError(f"not credentials for Azure: {credentials!r}")


def _provider(credentials: AzureCredentials) -> Any:
    if isinstance(credentials, AzureRefreshableCredentials):
        return Refreshing(credentials.fetch, credentials.current, _as_obstore)
    return None


def _as_obstore(credential: AzureRefreshableCredential) -> dict[str, object]:
    match credential:
        case AzureTimedAccessKey(key=key, expires_after=until):
            return {"access_key": key, "expires_at": aware(until)}
        case AzureTimedSasToken(token=token, expires_after=until):
            return {"sas_token": token, "expires_at": aware(until)}
        case AzureTimedBearerToken(bearer=bearer, expires_after=until):
            return {"token": bearer, "expires_at": aware(until)}
        case _:
            raise TypeError(f"not a credential for Azure: {credential!r}")
