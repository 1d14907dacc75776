"""Where a repository is, as text: options are all that Spark hands to its workers.

path            a folder, or the location of a bucket: s3://bucket/prefix
secretStorage   how that bucket is reached, credentials included, pickled; the name makes Spark
                hide it from its pages and plans

A location alone is opened with what each process finds in its environment.
"""

import base64
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from frazil.errors import InvalidInputError
from frazil.objectstore.credentials import GcsFromEnvCredentials, S3FromEnvCredentials
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.redirect import RedirectedStore
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote_gcs import GcsPlace
from frazil.objectstore.remote_http import HttpPlace
from frazil.objectstore.remote_place import clean_prefix
from frazil.objectstore.remote_s3 import S3Place


@dataclass(frozen=True, slots=True)
class PlaceText:
    path: str
    secret: str = field(default="", repr=False)


def format_path(path: str) -> PlaceText:
    """Of what a caller wrote; a folder becomes absolute, since workers start elsewhere."""
    return PlaceText(path if "://" in path else str(Path(path).absolute()))


def format_place(store: ObjectStore) -> PlaceText:
    """Raises InvalidInputError for a store that no other process could open."""
    if isinstance(store, LocalStore):
        return PlaceText(store.root)
    if isinstance(store, RedirectedStore):
        store = store.target
    if isinstance(store, RemoteStore):
        secret = base64.b64encode(pickle.dumps(store)).decode()
        return PlaceText(store.location, secret)
    raise InvalidInputError(
        f"Spark's workers are other processes and cannot open {store!r};"
        " keep the repository in a folder or a bucket that they can see"
    )


def open_place(text: PlaceText) -> ObjectStore:
    if text.secret:
        found = pickle.loads(base64.b64decode(text.secret))  # noqa: S301 -- written by `format_place`
        if not isinstance(found, RemoteStore):
            raise InvalidInputError("option 'secretStorage' is not what frazil wrote there")
        return found
    return _open_location(text.path)


def _open_location(path: str) -> ObjectStore:
    if "://" not in path:
        return LocalStore(path)
    parts = urlsplit(path)
    prefix = clean_prefix(unquote(parts.path))
    match parts.scheme:
        case "file":
            return LocalStore(unquote(parts.path))
        case "s3":
            credentials = S3FromEnvCredentials()
            place = S3Place(bucket=parts.netloc, prefix=prefix, credentials=credentials)
            return RemoteStore(place)
        case "gs" | "gcs":
            anywhere = GcsFromEnvCredentials()
            return RemoteStore(GcsPlace(bucket=parts.netloc, prefix=prefix, credentials=anywhere))
        case "http" | "https":
            return RemoteStore(HttpPlace(base_url=path))
        case _:
            raise InvalidInputError(
                f"no storage for {parts.scheme}:// in {path!r}: expected a folder, s3://, gs://"
                " or http(s)://; others are read as frazil.spark.read(spark, repository)"
            )
