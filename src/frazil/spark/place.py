"""Where a repository is, as text: options are all that Spark hands to its workers.

path            a folder, or the location of a bucket: s3://bucket/prefix
storage.<name>  how that bucket is reached: see storage_options.py
secretStorage   the same, credentials included, pickled; the name makes Spark hide it from its
                pages and plans

A location alone is opened with what each process finds in its environment.
"""

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from frazil.assets.old_layout import OldLayout
from frazil.errors import InvalidInputError
from frazil.objectstore.bucket_root import BucketRoot
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.redirect import RedirectedStore
from frazil.objectstore.remote import RemoteStore
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
    if isinstance(store, OldLayout):  # whoever opens the place finds out its generation again
        store = store.inner
    if isinstance(store, LocalStore):
        return PlaceText(store.root)
    if isinstance(store, RedirectedStore):
        store = store.target
    if isinstance(store, RemoteStore | BucketRoot):
        secret = base64.b64encode(pickle.dumps(store)).decode()
        return PlaceText(store.place.location, secret)
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
    found = pickle.loads(base64.b64decode(text.secret))  # noqa: S301 -- written by `format_place`
    if not isinstance(found, RemoteStore | BucketRoot):
        raise InvalidInputError("option 'secretStorage' is not what frazil wrote there")
    return found
