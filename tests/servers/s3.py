"""Two servers that speak S3.

SeaweedFS is a real one: it checks signatures, keeps objects in files, and is atomic under
contention, at a second's wait per lost race. ministack keeps all in memory and
answers hot keys at once.
"""

import itertools
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from obstore.exceptions import BaseError
from obstore.store import S3Store

from frazil.objectstore.credentials import S3FixedCredentials, S3StaticCredentials
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.s3 import S3Place
from tests.servers import process

REGION = "us-east-1"
BUCKET = "frazil-tests"
ACCESS_KEY = "frazil-test-key"
SECRET_KEY = "frazil-test-secret-frazil-test-secret"  # noqa: S105 - of a server that dies with the test
ROOT = Path(__file__).parents[2]
_prefixes = itertools.count()


@dataclass(frozen=True, slots=True)
class S3Server:
    endpoint: str
    process: process.ServerProcess
    access_key: str = ACCESS_KEY
    secret_key: str = field(default=SECRET_KEY, repr=False)
    bucket: str = BUCKET
    region: str = REGION

    def new_prefix(self) -> str:
        """A part of the bucket that nobody has used."""
        return f"t{next(_prefixes)}"

    def at(self, endpoint: str) -> "S3Server":
        """The same server, reached by another way: through a proxy."""
        return replace(self, endpoint=endpoint)

    @property
    def host(self) -> str:
        """Where a proxy has to turn to."""
        return self.endpoint

    def arguments(self, prefix: str) -> dict[str, Any]:
        """Of `s3_storage`."""
        return {
            "bucket": self.bucket,
            "prefix": prefix,
            "region": self.region,
            "endpoint_url": self.endpoint,
            "allow_http": True,
            "force_path_style": True,
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
        }

    def storage(self, engine: Any, prefix: str, **options: Any) -> Any:
        """`s3_storage` of frazil or of icechunk; options replace what is given here."""
        return engine.s3_storage(**{**self.arguments(prefix), **options})

    def store(self, prefix: str, settings: RemoteSettings | None = None) -> RemoteStore:
        """frazil's own client, without the rest of frazil."""
        static = S3StaticCredentials(self.access_key, self.secret_key)
        place = S3Place(
            bucket=self.bucket,
            prefix=prefix,
            credentials=S3FixedCredentials(static),
            region=self.region,
            endpoint_url=self.endpoint,
            force_path_style=True,
        )
        return RemoteStore(place, settings)

    def raw(self, prefix: str | None = None, **options: Any) -> S3Store:
        """obstore's own client, which does not retry."""
        return S3Store(
            self.bucket,
            prefix=prefix,
            endpoint=self.endpoint,
            region=self.region,
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            retry_config=options.pop("retry_config", {"max_retries": 0}),
            **options,
        )


def start_seaweedfs(folder: Path) -> S3Server:
    parts = ["s3", "master", "volume", "filer", "admin"]
    names = [f"{part}.port{kind}" for part in parts for kind in ("", ".grpc")]
    ports = dict(zip(names, sorted(process.free_ports(len(names)), reverse=True), strict=True))
    ports["admin.port.grpc"] = ports["admin.port"] + 10_000  # its own worker looks nowhere else
    endpoint = f"http://{process.HOST}:{ports['s3.port']}"
    command = [
        str(Path(sys.executable).with_name("weed")), "mini", f"-dir={folder / 'data'}",
        f"-ip={process.HOST}", f"-ip.bind={process.HOST}", f"-bucket={BUCKET}",
        "-master.telemetry=false", "-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0",
        "-s3.port.lance=0", "-s3.autoCreateBucket=false", "-volume.preStopSeconds=0",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]  # fmt: skip
    (folder / "data").mkdir(parents=True)
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    return started(command, keys, folder, endpoint)


def start_ministack(folder: Path) -> S3Server:
    (port,) = process.free_ports(1)
    endpoint = f"http://{process.HOST}:{port}"
    environment = {"GATEWAY_PORT": str(port), "BIND_HOST": process.HOST, "SERVICES": "s3"}
    command = [str(ROOT / ".build" / "ministack" / "bin" / "ministack")]
    return started(command, environment, folder, endpoint, make_bucket=True)


def started(
    command: list[str],
    environment: dict[str, str],
    folder: Path,
    endpoint: str,
    *,
    make_bucket: bool = False,
) -> S3Server:
    def ready() -> None:
        if make_bucket:
            request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")  # noqa: S310 - loopback
            urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 - loopback
        try:
            client.put("ready", b"first put")
        except BaseError as error:
            raise ConnectionError(str(error)) from error

    client = S3Server(endpoint, None).raw()  # type: ignore[arg-type]  # not started yet
    return S3Server(
        endpoint, process.start(command, environment=environment, folder=folder, ready=ready)
    )
