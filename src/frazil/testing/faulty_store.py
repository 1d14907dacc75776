"""An object store to which things happen, around any other.

    store = FaultyStore(LocalStore(path), Script(Rule(DropResponse(), method="put", path="repo")))
    repo = Repository.open(Storage(store))

What happens is chosen by verb and key, as `Request.verb` of the wrappers names them. A fault
arises where the engine would see it: after a store of its own has given up retrying.
"""

import errno
import os
import threading
import time
from collections.abc import Buffer, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from frazil.errors import ObjectNotFoundError, StorageError
from frazil.objectstore.local.local_files import storage_error
from frazil.objectstore.protocol import (
    ALWAYS,
    Blob,
    DataList,
    ObjectInfo,
    ObjectStore,
    Precondition,
)
from frazil.objectstore.reads import Parts
from frazil.objectstore.wrappers import Verb
from frazil.ranges import ByteRange, Range, resolve
from frazil.testing.faults import (
    AnswerWith,
    Choice,
    CutResponse,
    DelayRequest,
    DelayResponse,
    DenyPermission,
    DropRequest,
    DropResponse,
    Fault,
    FillDisk,
    RefuseWith,
    ServeStale,
    Throttle,
    no_fault,
)
from frazil.testing.hooked_store import HookedStore

_THROTTLING = {429, 503}


@dataclass(frozen=True, slots=True)
class Happened:
    """A request and what was done to it."""

    verb: Verb
    key: str
    fault: Fault


class FaultyStore(HookedStore[ObjectStore]):
    """Forwards requests, except those for which `choose` has a fault; `choose` may be replaced.

    A delay of more than `timeout_s` is an error after that time; the request is still made late.
    """

    def __init__(
        self, inner: ObjectStore, choose: Choice = no_fault, *, timeout_s: float = 60.0
    ) -> None:
        super().__init__(inner)
        self.choose = choose
        self.timeout_s = timeout_s
        self.happened: list[Happened] = []
        self._before: dict[str, Blob] = {}  # the content of a key before its last change
        self._late: list[threading.Timer] = []

    def request[T](self, verb: Verb, key: str, act: Callable[[], T]) -> T:
        return self._done(verb, key, self._chosen(verb, key), act)

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        return self._read(key, byte_range, lambda: self.inner.get(key, byte_range))

    def reread(self, key: str, cached: Blob | None) -> Blob:
        return self._read(key, None, lambda: self.inner.reread(key, cached))

    def _read(self, key: str, byte_range: ByteRange | None, act: Callable[[], Blob]) -> Blob:
        fault = self._chosen("get", key)
        if isinstance(fault, ServeStale) and key in self._before:
            return _part(self._before[key], byte_range)
        blob = self._done("get", key, fault, act)
        return Blob(blob.data[: fault.size_bytes], "") if isinstance(fault, CutResponse) else blob

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        fault = self._chosen("get_ranges", key)
        if isinstance(fault, ServeStale) and key in self._before:
            return [_part(self._before[key], wanted).data for wanted in ranges]
        parts = self._done("get_ranges", key, fault, lambda: self.inner.get_ranges(key, ranges))
        if isinstance(fault, CutResponse):
            return [part[: fault.size_bytes] for part in parts]
        return parts

    def read_parts(self, parts: Parts) -> DataList:
        """Reads object by object, so that a fault can be chosen for each."""
        return ObjectStore.read_parts(self, parts)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        def act() -> str:
            before = self._find(key)
            version = self.inner.put(key, data, when=when)
            if before is not None:
                self._before[key] = before
            return version

        return self.request("put", key, act)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        fault = self._chosen("list", prefix)
        infos = self._done("list", prefix, fault, lambda: [*self.inner.list(prefix)])
        return iter(infos[: fault.size_bytes] if isinstance(fault, CutResponse) else infos)

    def settle(self) -> None:
        """Waits for the requests that are made late."""
        while self._late:
            self._late.pop().join()

    def _chosen(self, verb: Verb, key: str) -> Fault | None:
        fault = self.choose(verb, key)
        if fault is not None:
            self.happened.append(Happened(verb, key, fault))
        return fault

    def _done[T](self, verb: Verb, key: str, fault: Fault | None, act: Callable[[], T]) -> T:
        match fault:
            case None | CutResponse() | ServeStale():
                return act()
            case DelayRequest(seconds):
                return self._after(seconds, verb, key, act)
            case DelayResponse(seconds):
                result = act()
                time.sleep(min(seconds, self.timeout_s))
                if seconds > self.timeout_s:
                    raise _error(verb, key, "the server did not answer in time")
                return result
            case DropResponse() | AnswerWith():
                act()
                raise _refusal_error(verb, key, fault)
            case DropRequest() | RefuseWith() | Throttle() | FillDisk() | DenyPermission():
                raise _refusal_error(verb, key, fault)
            case _:
                assert_never(fault)

    def _after[T](self, seconds: float, verb: Verb, key: str, act: Callable[[], T]) -> T:
        if seconds <= self.timeout_s:
            time.sleep(seconds)
            return act()
        late = threading.Timer(seconds, _quietly(act))
        self._late.append(late)
        late.start()
        time.sleep(self.timeout_s)
        raise _error(verb, key, "the server did not answer in time")

    def _find(self, key: str) -> Blob | None:
        try:
            return self.inner.get(key)
        except ObjectNotFoundError:
            return None


def _part(blob: Blob, byte_range: ByteRange | None) -> Blob:
    if byte_range is None:
        return blob
    within = resolve(byte_range, len(blob.data))
    return Blob(blob.data[within.start : within.stop], "")


def _quietly(act: Callable[[], object]) -> Callable[[], None]:
    """`act` without its StorageError, for which no caller is waiting."""

    def run() -> None:
        with suppress(StorageError):
            act()

    return run


type _Refusal = (
    DropRequest | DropResponse | RefuseWith | AnswerWith | Throttle | FillDisk | DenyPermission
)


def _refusal_error(verb: Verb, key: str, fault: _Refusal) -> StorageError:
    match fault:
        case DropRequest() | DropResponse():
            return _error(verb, key, "the connection was closed")
        case RefuseWith(status) | AnswerWith(status):
            return _error(
                verb,
                key,
                f"the server answered {status}",
                kind="throttled" if status in _THROTTLING else None,
            )
        case Throttle(retry_after_s):
            text = f"too many requests, come again after {retry_after_s} s"
            return _error(verb, key, text, kind="throttled")
        case FillDisk():
            return storage_error(verb, key, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        case DenyPermission():
            return storage_error(verb, key, OSError(errno.EACCES, os.strerror(errno.EACCES)))
        case _:
            assert_never(fault)


def _error(verb: Verb, key: str, reason: str, *, kind: str | None = None) -> StorageError:
    return StorageError(f"cannot {verb} {key!r}: {reason}", kind=kind)
