"""Where a repository is, as text: options are all that Spark hands to its workers.

path            a folder, or the location of a bucket: s3://bucket/prefix
storage.<name>  how that bucket is reached: see storage_options.py
secretStorage   the same, credentials included, as JSON (plain_values.py); the name makes Spark
                hide it from its pages and plans

A location alone is opened with what each process finds in its environment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from frazil.assets.old_layout import OldLayout
from frazil.errors import InvalidInputError
from frazil.objectstore.bucket_root import BucketRoot
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.redirect import RedirectedStore
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote_azure import AzurePlace
from frazil.objectstore.remote_gcs import GcsPlace
from frazil.objectstore.remote_http import HttpPlace
from frazil.objectstore.remote_s3 import S3Place
from frazil.objectstore.remote_settings import RemoteSettings
from frazil.spark.plain_values import decode_values, encode_values
from frazil.spark.storage_options import storage_of, storage_options_in


@dataclass(frozen=True, slots=True)
class PlaceText:
    path: str
    secret: str = field(default="", repr=False)


def format_path(path: str) -> PlaceText:
    """Of what a caller wrote; a folder becomes absolute, since workers start elsewhere."""
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
    if isinstance(store, OldLayout):  # its generation is detected again where it is opened
        store = store.inner
    if isinstance(store, RedirectedStore):
        store = store.target
    if isinstance(store, LocalStore | RemoteStore | BucketRoot):
        return store
    raise InvalidInputError(
        f"Spark's workers are other processes and cannot open {store!r};"
        " keep the repository in a folder or a bucket that they can see"
    )


def place_of_options(options: Mapping[str, str]) -> PlaceText:
    """Of `path` alone if no option says how to reach it."""
    given = {name.lower(): text for name, text in options.items()}
    if not storage_options_in(options):
        return PlaceText(given.get("path", ""), given.get("secretstorage", ""))
    if given.get("secretstorage"):
        raise InvalidInputError("options secretStorage and storage.<name> exclude each other")
    return format_place(storage_of(options).store)


def open_place(text: PlaceText) -> ObjectStore:
    if not text.secret:
        return storage_of({"path": text.path}).store
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
