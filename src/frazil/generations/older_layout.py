"""A store that shows the files of an older repository by the keys that version 2 has for them.

    now                 A1                  A2a, A2b
    snapshots/<id>      s/<id>.msgpack      snapshots/<id>.msgpack
    manifests/<id>      m/<id>.msgpack      manifests/<id>.msgpack
    chunks/<id>         c/<id>              chunks/<id>                up to A1c with .msgpack

Ids had 16 bytes up to A2a. The engine has the first 12 of them; the rest of a name is found by
listing. From A2c on keys are the same, and the store only refuses changes.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from frazil.engine.files.object_keys import CHUNKS, MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.errors import ObjectNotFoundError
from frazil.format.generation import Generation, require_writable
from frazil.generations.msgpack_values import LONG_WIDTH, WIDTH, id_text
from frazil.ids import ObjectId, format_base32, parse_base32
from frazil.objectstore.protocol import (
    ALWAYS,
    Blob,
    DataList,
    ObjectInfo,
    ObjectStore,
    Place,
    Precondition,
    RemoteSettings,
)
from frazil.ranges import ByteRange, Range

_SUFFIX = ".msgpack"
_SHARED = 19  # characters that two ids share if their first 12 bytes are the same
_SHORT = {SNAPSHOTS: "s/", MANIFESTS: "m/", CHUNKS: "c/", TRANSACTIONS: "t/"}
_RENAMED = frozenset(
    {
        Generation.A1A,
        Generation.A1B,
        Generation.A1C,
        Generation.A1D,
        Generation.A1E,
        Generation.ALPHA1,
    }
)
_LOOKED_UP = _RENAMED | {Generation.A2A, Generation.A2B}


@dataclass(frozen=True, slots=True)
class OlderLayout(ObjectStore):
    """`inner` by today's keys. Refuses changes unless the generation is one that is written."""

    inner: ObjectStore
    generation: Generation

    @property
    def writable(self) -> bool:
        return self.inner.writable

    @property
    def far(self) -> bool:
        return self.inner.far

    @property
    def place(self) -> Place | None:
        return self.inner.place

    def with_settings(self, change: Callable[[RemoteSettings], RemoteSettings]) -> ObjectStore:
        inner = self.inner.with_settings(change)
        return self if inner is self.inner else replace(self, inner=inner)

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        return self._at(key, lambda place: self.inner.get(place, byte_range))

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        return self._at(key, lambda place: self.inner.get_ranges(place, ranges))

    def head(self, key: str) -> ObjectInfo:
        return replace(self._at(key, self.inner.head), key=key)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        require_writable(self.generation)
        return self.inner.put(self._new_place(key), data, when=when)

    def delete(self, keys: Iterable[str]) -> int:
        require_writable(self.generation)
        return self.inner.delete(self._places(keys))

    def copy(self, source: str, target: str) -> None:
        require_writable(self.generation)
        self._at(source, lambda place: self.inner.copy(place, self._new_place(target)))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        if self.generation not in _LOOKED_UP:
            return self.inner.list(prefix)
        folder = next((each for each in _SHORT if prefix.startswith(each)), None)
        return self._listed(prefix, prefix if folder is None else self._folder(folder))

    def sync(self) -> None:
        self.inner.sync()

    # Names

    def _folder(self, folder: str) -> str:
        return _SHORT[folder] if self.generation in _RENAMED else folder

    def _listed(self, prefix: str, place: str) -> Iterator[ObjectInfo]:
        for info in self.inner.list(place):
            key = self._key_of(info.key)
            if key.startswith(prefix):
                yield replace(info, key=key)

    def _key_of(self, place: str) -> str:
        """Today's key of a file; unchanged for a file whose name is no id."""
        folder, slash, name = place.rpartition("/")
        for new in _SHORT:
            if self._folder(new) == folder + slash and (raw := _parse_name(name)) is not None:
                return f"{new}{format_base32(raw)}"
        return place

    def _split(self, key: str) -> tuple[str, bytes] | None:
        """The folder and the id of a key; None for one that is not translated."""
        folder, slash, name = key.rpartition("/")
        if self.generation not in _LOOKED_UP or folder + slash not in _SHORT:
            return None
        raw = _parse_name(name) if len(name) == WIDTH else None
        return None if raw is None else (folder + slash, raw)

    def _new_place(self, key: str) -> str:
        """The key under which a new file is stored."""
        found = self._split(key)
        if found is None:
            return key
        folder, raw = found
        suffix = "" if folder == CHUNKS else _SUFFIX
        return f"{self._folder(folder)}{id_text(raw, long=True)}{suffix}"

    def _at[T](self, key: str, act: Callable[[str], T]) -> T:
        """`act` on the file that `key` stands for."""
        if self.generation is Generation.ALPHA1 or self._split(key) is None:
            try:
                return act(self._new_place(key))
            except ObjectNotFoundError as error:
                if self._split(key) is None:
                    raise
                return act(self._find(key, error))
        return act(self._find(key, ObjectNotFoundError(key)))

    def _find(self, key: str, missing: ObjectNotFoundError) -> str:
        """The stored key of an existing file, found by the known part of its name."""
        found = self._split(key)
        if found is not None:
            folder, raw = found
            start = (
                urlsafe_b64encode(raw).decode()
                if self.generation is Generation.A1A
                else format_base32(raw)[:_SHARED]
            )
            for info in self.inner.list(self._folder(folder) + start):
                if _parse_name(info.key.rpartition("/")[2]) == raw:
                    return info.key
        raise ObjectNotFoundError(key) from missing

    def _places(self, keys: Iterable[str]) -> Iterator[str]:
        for key in keys:
            try:
                yield self._at(key, lambda place: self.inner.head(place).key)
            except ObjectNotFoundError:
                continue


def _parse_name(name: str) -> bytes | None:
    """The first 12 bytes of the id that a file is named after."""
    text = name.removesuffix(_SUFFIX)
    try:
        if text.endswith("=="):
            return urlsafe_b64decode(text)[: ObjectId.size]
        sizes = {LONG_WIDTH: 16, WIDTH: ObjectId.size}
        return parse_base32(text, sizes[len(text)])[: ObjectId.size]
    except (KeyError, ValueError, binascii.Error):
        return None
