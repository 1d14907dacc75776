"""Azurite: Azure Blob storage on this machine, in memory."""

import base64
import hashlib
import hmac
import itertools
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Any

from obstore.exceptions import BaseError
from obstore.store import AzureStore

from frazil.objectstore.credentials import AzureAccessKey, AzureFixedCredentials
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.azure import AzurePlace
from tests.servers import process

# The account that every emulator has, with the key that Microsoft publishes for it.
ACCOUNT = "devstoreaccount1"
ACCESS_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
CONTAINER = "frazil-tests"
VERSION = "2021-08-06"  # of the protocol; any that Azurite knows
ROOT = Path(__file__).parents[2]
_prefixes = itertools.count()


@dataclass(frozen=True, slots=True)
class AzureServer:
    endpoint: str  # with the account, as the emulator wants it
    process: process.ServerProcess
    account: str = ACCOUNT
    access_key: str = field(default=ACCESS_KEY, repr=False)
    container: str = CONTAINER

    def new_prefix(self) -> str:
        """A part of the container that nobody has used."""
        return f"t{next(_prefixes)}"

    def at(self, endpoint: str) -> "AzureServer":
        """The same server, reached by another way: through a proxy."""
        return replace(self, endpoint=f"{endpoint}/{self.account}")

    @property
    def host(self) -> str:
        """Where a proxy has to turn to."""
        return self.endpoint.removesuffix(f"/{self.account}")

    def storage(self, engine: Any, prefix: str, **options: Any) -> Any:
        """`azure_storage` of frazil or of icechunk; options replace what is given here."""
        given = {
            "account": self.account,
            "container": self.container,
            "prefix": prefix,
            "access_key": self.access_key,
            "config": {"azure_storage_endpoint": self.endpoint, "azure_allow_http": "true"},
        }
        return engine.azure_storage(**{**given, **options})

    def store(self, prefix: str, settings: RemoteSettings | None = None) -> RemoteStore:
        """frazil's own client, without the rest of frazil."""
        place = AzurePlace(
            account=self.account,
            container=self.container,
            prefix=prefix,
            credentials=AzureFixedCredentials(AzureAccessKey(self.access_key)),
            config=(("azure_storage_endpoint", self.endpoint), ("azure_allow_http", "true")),
        )
        return RemoteStore(place, settings)

    def raw(self, prefix: str | None = None, **options: Any) -> AzureStore:
        """obstore's own client, which does not retry."""
        return AzureStore(
            self.container,
            prefix=prefix,
            account_name=self.account,
            account_key=self.access_key,
            endpoint=self.endpoint,
            client_options={"allow_http": True},
            retry_config=options.pop("retry_config", {"max_retries": 0}),
            **options,
        )


def start_azurite(folder: Path) -> AzureServer:
    (port,) = process.free_ports(1)
    node = shutil.which("node")
    assert node, "azurite is installed, so node was there"
    script = ROOT / ".build/azurite/node_modules/azurite/dist/src/blob/main.js"
    command = [
        node, str(script), "--blobHost", process.HOST, "--blobPort", str(port),
        "--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck",
    ]  # fmt: skip
    endpoint = f"http://{process.HOST}:{port}/{ACCOUNT}"

    def ready() -> None:
        create_container(endpoint)
        try:
            client.put("ready", b"first put")
        except BaseError as error:
            raise ConnectionError(str(error)) from error

    client = AzureServer(endpoint, None).raw()  # type: ignore[arg-type]  # not started yet
    return AzureServer(endpoint, process.start(command, environment={}, folder=folder, ready=ready))


def create_container(endpoint: str, name: str = CONTAINER) -> None:
    """Signed with the shared key, as Azure's documentation describes; obstore cannot do it."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
    signed = "\n".join(f"{key}:{value}" for key, value in sorted(headers.items()))
    # A request without a body leaves all the standard headers of the text to sign empty.
    text = f"PUT{'\n' * 12}{signed}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    digest = hmac.new(base64.b64decode(ACCESS_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"{endpoint}/{name}?restype=container"
    request = urllib.request.Request(url, method="PUT", headers=headers)  # noqa: S310 - loopback
    try:
        urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 - loopback
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.CONFLICT:  # it is there already
            raise
