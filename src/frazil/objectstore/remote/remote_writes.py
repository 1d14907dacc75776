"""Writing to a remote store, conditionally, where answers get lost.

A client that hears nothing, or an error, after it has sent a conditional write does not know
whether the write was done; and obstore sends it again by itself, so that the answer may be about
the second copy: "there is an object already", which is our own. So each write carries an id of its
own in the object's metadata, as the reference's do, and a writer that is refused or gets no
answer looks at the object that is there:

    our id                           done, the answer was lost
    what we wanted to replace        not done: once more, with the same id and condition
    anything else                    another writer was faster

Writing once more is safe: should the first copy arrive late, its condition fails.
Without metadata (by the settings, or in a store that drops it) the content is compared instead.
That takes two writers of the same bytes for one, so objects should hold something that is never
repeated.
"""

import time
from dataclasses import field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from frazil.dataclass import dataclass
from frazil.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from frazil.objectstore.protocol import Absent, Always, Matches, Precondition, RemoteSettings
from frazil.objectstore.remote.place import ServerFeatures
from frazil.objectstore.remote.remote_errors import (
    WRITE,
    Failure,
    cause_of,
    failure_of,
    foreign_errors,
    storage_error,
    translate_errors,
)
from frazil.objectstore.remote.remote_reads import Reader, bare_etag, mark_of
from frazil.objectstore.remote.remote_requests import Requests

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

WRITE_ID = "icechunkwriteid"  # as the reference spells it
_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    path: str
    key: str
    data: memoryview
    when: Precondition
    id: str


@dataclass(frozen=True, slots=True)
class _Current:
    """The object that is there now."""

    version: str
    ours: bool


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes objects by their names in the bucket."""

    client: "Client" = field(repr=False)  # shows the whole of a URL
    reader: Reader
    requests: Requests
    settings: RemoteSettings
    features: ServerFeatures
    location: str

    def put(self, path: str, data: memoryview, when: Precondition, *, key: str) -> str:
        """The version written. Raises PreconditionFailedError."""
        attributes: dict[str, str] = {}
        storage_class = self.settings.storage_class_of(key)
        if storage_class is not None:
            attributes["Storage-Class"] = storage_class
        when = self._condition(when)
        write = _Write(path=path, key=key, data=data, when=when, id=str(uuid4()))
        if isinstance(when, Always):
            return self._put_always(write, attributes)
        return self._put_when(write, attributes)

    def _condition(self, when: Precondition) -> Precondition:
        """The condition as far as the settings permit one."""
        match when:
            case Absent() if not self.settings.conditional_create:
                return Always()
            case Matches() if not self.settings.conditional_update:
                return Always()
            case _:
                return when

    # Unconditionally

    def _put_always(self, write: _Write, attributes: dict[str, str]) -> str:
        size_bytes = write.data.nbytes
        if size_bytes and size_bytes >= self.settings.multipart_bytes:
            return self._put_in_parts(write, attributes | self._mark(write))
        with translate_errors(WRITE, self.location, write.key), self.requests.one():
            return self._send(write, attributes, use_multipart=False)

    def _put_in_parts(self, write: _Write, attributes: dict[str, str]) -> str:
        """Its last request completes it, and cannot be repeated: its answer must not get lost."""
        size_bytes = write.data.nbytes
        try:
            with self.requests.many(self.settings.max_requests_for_object) as at_once:
                return self._send(
                    write,
                    attributes,
                    use_multipart=True,
                    chunk_size=self.settings.part_bytes(size_bytes),
                    max_concurrency=at_once,
                )
        except foreign_errors() as error:
            failure = failure_of(error)
            found = self._look(write) if failure.unsettled or failure.missing else None
            if found is not None and found.ours:
                return found.version
            raise self._error(write, failure) from cause_of(failure)

    def _send(self, write: _Write, attributes: dict[str, str], **options: Any) -> str:
        from obstore import put  # noqa: PLC0415 - `import frazil` stays light

        done = put(self.client, write.path, write.data, attributes=attributes or None, **options)
        return self._version(done["e_tag"], done["version"])

    # On a condition

    def _put_when(self, write: _Write, attributes: dict[str, str]) -> str:
        mode = self._mode(write)
        attributes = attributes | self._mark(write)
        attempt = 0
        while True:
            attempt += 1
            try:
                with self.requests.one():
                    version = self._send(write, attributes, mode=mode, use_multipart=False)
                return version or self._version_of_own(write)
            except foreign_errors() as error:
                failure = failure_of(error)
                late = self._outcome(write, failure)
                if late is not None:
                    return late
                # obstore has tried several times already, unless another writer was in the way.
                if attempt >= (self.settings.max_tries if failure.already_there else _ROUNDS):
                    raise self._error(write, failure) from cause_of(failure)
            self._pause(attempt)

    def _outcome(self, write: _Write, failure: Failure) -> str | None:
        """The version written after all; None if the write may be made again."""
        refused = failure.already_there or failure.condition_failed
        if not refused and not failure.unsettled:
            raise self._error(write, failure) from cause_of(failure)
        found = self._look(write)
        if found is not None and found.ours:
            return found.version
        match write.when:
            case Matches(version):
                untouched = found is not None and found.version == version
                expected = f"version {version}"
            case _:
                untouched = found is None
                expected = "no such object"
        # 409: another conditional write was under way, and it may have failed.
        if untouched and not failure.condition_failed:
            return None
        raise PreconditionFailedError(write.key, expected) from cause_of(failure)

    def _version_of_own(self, write: _Write) -> str:
        """The version just written, for servers that do not return it."""
        found = self._look(write)
        return found.version if found is not None and found.ours else ""

    def _look(self, write: _Write) -> _Current | None:
        """The object that is there. A HEAD suffices where the write id tells whose it is."""
        from obstore import get  # noqa: PLC0415 - `import frazil` stays light

        try:
            with translate_errors("read back", self.location, write.key), self.requests.one():
                found = get(self.client, write.path, options={"head": True})
            mark = mark_of(found.meta)
            if self._marks_writes:
                ours = found.attributes.get(WRITE_ID) == write.id
            elif mark.size_bytes != write.data.nbytes:
                ours = False
            else:
                part = self.reader.read(write.path, None, key=write.key)
                ours, mark = memoryview(part.data).cast("B") == write.data, part.mark or mark
        except ObjectNotFoundError:
            return None
        except StorageError as error:
            raise StorageError(
                f"{error.message}; whether it was written just before is not known"
            ) from error
        return _Current(self._version(mark.etag, mark.generation), ours)

    def _error(self, write: _Write, failure: Failure) -> StorageError:
        return storage_error(failure, WRITE, self.location, write.key)

    def _mark(self, write: _Write) -> dict[str, str]:
        return {WRITE_ID: write.id} if self._marks_writes else {}

    @property
    def _marks_writes(self) -> bool:
        return self.settings.metadata and self.features.keeps_metadata

    def _mode(self, write: _Write) -> Any:
        when = write.when
        if not isinstance(when, Matches):
            return "create"
        if not when.version:  # servers take an empty condition for none
            raise PreconditionFailedError(write.key, "a version, but none is known")
        if self.features.counts_generations:
            return {"version": when.version}
        return {"e_tag": f'"{when.version}"' if self.features.quotes_etags else when.version}

    def _version(self, etag: str | None, generation: str | None) -> str:
        if self.features.counts_generations:
            return generation or ""
        return bare_etag(etag)

    def _pause(self, attempt: int) -> None:
        settings = self.settings
        longest_ms = min(settings.initial_backoff_ms * 2.0**attempt, settings.max_backoff_ms, 2000)
        time.sleep(longest_ms * (uuid4().int % 1000) / 1_000_000)
