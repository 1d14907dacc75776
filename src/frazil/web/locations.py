"""Location of the repository in programs that the explorer writes; never with secrets."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from frazil.objectstore.archive import ArchiveStore
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.azure import AzurePlace
from frazil.objectstore.remote.gcs import GcsPlace
from frazil.objectstore.remote.place import HttpPlace
from frazil.objectstore.remote.redirect import RedirectedStore
from frazil.objectstore.remote.s3 import BucketRoot, S3Place

UNKNOWN = "..."  # in a program: a Python expression that its user has to replace


def location_facts(store: ObjectStore) -> dict[str, object]:
    """`python` opens the repository; `path` and `storage` are those of Spark's tables."""
    if isinstance(store, RedirectedStore):
        store = store.target
    match store:
        case LocalStore():
            return _facts(f"frazil.local_filesystem_storage({store.root!r})", store.root)
        case ArchiveStore():
            path = str(store.path)
            return {"python": f"frazil.Repository.open_bundle({path!r})", "path": path}
        case RemoteStore() | BucketRoot():
            return _remote_facts(store.place)
        case _:  # in the memory of the server's process
            return _facts(UNKNOWN, None)


def _facts(
    storage: str, path: str | None, options: Mapping[str, object] | None = None
) -> dict[str, object]:
    return {
        "python": f"frazil.Repository.open({storage})",
        "path": path,
        "storage": dict(options or {}),
    }


def _remote_facts(place: object) -> dict[str, object]:
    match place:
        case S3Place():
            given = {
                "region": place.region,
                "endpoint_url": place.endpoint_url and _without_password(place.endpoint_url),
                "allow_http": place.allow_http,
                "force_path_style": place.force_path_style,
                "requester_pays": place.requester_pays,
                **_credentials(place.credentials),
            }
            bucket = {"bucket": place.bucket, "prefix": place.prefix}
            kind = "tigris" if place.scheme == "tigris" else "s3"  # R2 is S3 by its endpoint
            if kind == "tigris" and place.region is None:
                given["use_weak_consistency"] = True
            path = "/".join(filter(None, (f"{kind}:/", place.bucket, place.prefix)))
            return _call(f"{kind}_storage", bucket, given, path)
        case GcsPlace():
            bucket = {"bucket": place.bucket, "prefix": place.prefix}
            return _call("gcs_storage", bucket, _credentials(place.credentials), place.location)
        case AzurePlace():
            own = {"account": place.account}
            parts = {**own, "container": place.container, "prefix": place.prefix}
            given = _credentials(place.credentials)
            facts = _call("azure_storage", parts, given, place.location)
            return facts | {"storage": {**own, **given}}
        case HttpPlace():
            return _facts(f"frazil.http_storage({place.location!r})", place.location)
        case _:
            return _facts(UNKNOWN, None)


def _call(
    function: str, parts: Mapping[str, object], options: Mapping[str, object], path: str
) -> dict[str, object]:
    given = {name: value for name, value in options.items() if value}
    told = ", ".join(f"{name}={value!r}" for name, value in {**parts, **given}.items())
    return _facts(f"frazil.{function}({told})", path, given)


def _credentials(credentials: Any) -> dict[str, object]:
    """Credentials are left to the environment of the program, also if the server was given some."""
    is_anonymous = "Anonymous" in type(credentials).__name__
    return {"anonymous": True} if is_anonymous else {"from_env": True}


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
