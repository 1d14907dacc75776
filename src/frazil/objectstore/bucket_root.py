"""The root of a bucket of S3, whose keys may begin with a slash.

Early releases of the reference wrote `/repo` where others write `repo`, if there was no prefix.
Which of the two it is shows by objects that every store of the kind has: they are looked for under
both names.
"""

from dataclasses import replace

from frazil.errors import ObjectNotFoundError, StorageError
from frazil.objectstore.late import LateStore
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote_reads import Mark
from frazil.objectstore.remote_s3 import S3Place
from frazil.objectstore.remote_settings import RemoteSettings


class BucketRoot(LateStore):
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
        """As if keys began as usual."""
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

    def with_settings(self, settings: RemoteSettings) -> "BucketRoot":
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
