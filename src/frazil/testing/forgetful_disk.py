"""A disk that forgets what was not synced, simulated from the calls that were made.

    disk = ForgetfulDisk.of(root)                    # what is there is durable
    with watched_disk(root, after=disk.apply, keep_data=True):
        ...
    disk.image().write_to(folder)                    # what a power failure leaves, at worst
    disk.image(random.Random(1)).write_to(another)   # ... and what it may leave as well

The content of a file is durable after an fsync of the file, its name after one of its directory.
What was not synced survives as a whole, in part or not at all, each file and each name for itself,
which is less than any filesystem of today promises.
"""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Self

from frazil.testing.disk import DiskCall


@dataclass(slots=True, eq=False)
class _File:
    content: bytes = b""
    durable: bytes = b""


@dataclass(slots=True, eq=False)
class _Directory:
    """Never told apart by content: what is in it, other names tell."""


type _Node = _File | _Directory


@dataclass(frozen=True, slots=True)
class DiskImage:
    """Files by path, and directories."""

    files: dict[str, bytes]
    directories: frozenset[str] = frozenset()

    def write_to(self, root: str | os.PathLike[str]) -> None:
        for directory in sorted(self.directories):
            (Path(root) / directory).mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            (Path(root) / path).write_bytes(content)


@dataclass(slots=True)
class ForgetfulDisk:
    """Names as they are and as they are durable. `apply` may be called from several threads."""

    _names: dict[str, _Node] = field(default_factory=dict)
    _durable: dict[str, _Node] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, root: str | os.PathLike[str]) -> Self:
        names: dict[str, _Node] = {"": _Directory()}
        for path in sorted(Path(root).rglob("*")):
            content = path.read_bytes() if path.is_file() else None
            below = path.relative_to(root).as_posix()
            names[below] = _Directory() if content is None else _File(content, content)
        return cls(names, dict(names))

    def apply(self, call: DiskCall) -> None:
        with self._lock:
            self._apply(call)

    def _apply(self, call: DiskCall) -> None:
        names = self._names
        match call.name:
            case "create":
                names[call.path] = _File()
            case "mkdir":
                names[call.path] = _Directory()
            case "write":
                file = names[call.path]
                assert isinstance(file, _File)
                file.content += call.data
            case "link":
                names[call.target] = names[call.path]
            case "rename":
                names[call.target] = names.pop(call.path)
            case "unlink" | "rmdir":
                del names[call.path]
            case "fsync":
                self._sync(call.path)
            case "lock" | "unlock":
                pass

    def _sync(self, path: str) -> None:
        node = self._names[path]
        if isinstance(node, _File):
            node.durable = node.content
            return
        for name in {*self._names, *self._durable} - {""}:
            if name.rpartition("/")[0] == path:
                _set(self._durable, name, self._names.get(name))

    def image(self, chance: Random | None = None) -> DiskImage:
        """The files after a power failure: the durable ones, or by chance more."""
        with self._lock:
            names = dict(self._durable)
            if chance is not None:
                for name in sorted({*self._names, *self._durable}):
                    if chance.random() < 0.5:
                        _set(names, name, self._names.get(name))
            held = {path: self._held(node, chance) for path, node in sorted(names.items())}
        return _reachable(held)

    def _held(self, node: _Node, chance: Random | None) -> bytes | None:
        """The content of a file; None for a directory."""
        if isinstance(node, _Directory):
            return None
        if chance is None or node.content == node.durable:
            return node.durable
        torn = node.content[: chance.randrange(len(node.content) + 1)]
        return chance.choice([node.durable, node.content, torn])


def _set(names: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _reachable(held: dict[str, bytes | None]) -> DiskImage:
    """Names whose directories are all there; paths come in order, so that parents come first."""
    directories = {""}
    files = dict[str, bytes]()
    for path, content in held.items():
        if path == "" or path.rpartition("/")[0] not in directories:
            continue
        if content is None:
            directories.add(path)
        else:
            files[path] = content
    return DiskImage(files, frozenset(directories))
