"""The chunks of a session's arrays: pending ones over committed ones.

An array and its pending chunks are looked up together, so that a commit which ends between the two
cannot make a chunk disappear. What was found then is good for as long as it takes to read: the
manifests and chunks of a snapshot do not change.
"""

from __future__ import annotations  # what chunks need is imported when one is read or written

from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from frazil.engine.session.session_state import SessionState
from frazil.errors import InvalidInputError
from frazil.format.nodes import ArrayData, Node
from frazil.ids import ManifestId
from frazil.lazy import lazy_module
from frazil.objectstore.protocol import Data
from frazil.objectstore.reads import Targets
from frazil.paths import NodePath
from frazil.ranges import ByteRange

if TYPE_CHECKING:
    from frazil.engine.changes import attached_manifests
    from frazil.engine.changes import chunk_reads as reads
    from frazil.engine.changes import pending as edits
    from frazil.engine.commit import chunk_writer as writers
    from frazil.engine.commit import splitting
    from frazil.format import chunk_index
    from frazil.format import chunk_refs as references
else:
    attached_manifests = lazy_module("frazil.engine.changes.attached_manifests")
    chunk_index = lazy_module("frazil.format.chunk_index")
    edits = lazy_module("frazil.engine.changes.pending")
    reads = lazy_module("frazil.engine.changes.chunk_reads")
    references = lazy_module("frazil.format.chunk_refs")
    splitting = lazy_module("frazil.engine.commit.splitting")
    writers = lazy_module("frazil.engine.commit.chunk_writer")


class SessionChunks(SessionState):
    """The part of a Session that reads and writes chunks."""

    # Reading

    def chunk_payload(self, path: NodePath, index: edits.Index) -> references.Payload | None:
        """Payload of the chunk; None if it was never written or lies outside the grid."""
        node, found = self._find_chunk(path, index)
        return reads.find_committed(self.files, node, index) if found is edits.UNTOUCHED else found

    def cached_payload(
        self, path: NodePath, index: edits.Index
    ) -> references.Payload | edits.Untouched | None:
        """Like `chunk_payload`, but UNTOUCHED where a file would have to be read."""
        node, found = self._find_chunk(path, index)
        if found is edits.UNTOUCHED and reads.is_cached(self.files, node, index):
            return reads.find_committed(self.files, node, index)
        return found

    def fetch_chunk(
        self, path: NodePath, index: edits.Index, byte_range: ByteRange | None = None
    ) -> Data | None:
        payload = self.chunk_payload(path, index)
        return None if payload is None else reads.fetch_payload(self.files, payload, byte_range)

    def fetch_chunks(
        self,
        path: NodePath,
        wanted: npt.NDArray[np.uint32],
        parts: npt.NDArray[np.int64] | None = None,
        into: Targets | None = None,
    ) -> list[Data | None]:
        """Bytes of each wanted chunk, (m, ndim), None where there is none.

        With `parts`, (m, 2), only those from, up to: cut off at the end of the chunk; a negative
        start counts from there, and the rest is given. With `into`, (m,), bytes may have been put
        there already: then the target itself is given back.
        """
        found = self.find_chunks(path, wanted)
        return reads.fetch_found(self.files, found.found, found.count, parts, into)

    def find_chunks(self, path: NodePath, wanted: npt.NDArray[np.uint32]) -> reads.FoundChunks:
        """The wanted chunks, (m, ndim), as of now, to be read in parts and one after the other."""
        node, array, changes = self._array_with_changes(path)
        if wanted.ndim != 2 or wanted.shape[1] != len(array.shape):
            raise _wrong_ndim(path, wanted.shape[-1], array)
        found = reads.lookup_current(self.files, node, changes, wanted)
        return reads.FoundChunks(self.files, found, len(wanted))

    def chunk_refs(self, path: NodePath) -> Iterator[references.ChunkRefs]:
        """All references of the array as of now, in batches; changed ones come first."""
        node, _, changes = self._array_with_changes(path)
        return reads.current_refs(self.files, node, changes)

    # Writing

    def chunk_writer(self) -> writers.ChunkWriter:
        """Stores chunks for this session, here or in another process."""
        return writers.ChunkWriter(self.files.store, self.files.settings.inline_threshold_bytes)

    def set_chunk(self, path: NodePath, index: edits.Index, data: Buffer) -> None:
        """Stores the bytes at once; the reference waits for the commit."""
        self._change_chunk(path, index, data)

    def _change_chunk(
        self, path: NodePath, index: edits.Index, data: writers.ChunkData | references.Native | None
    ) -> None:
        """Stores one chunk; None deletes it."""
        self._require_place(path, index)
        payload: references.Payload | None
        if data is None or isinstance(data, references.Native):
            payload = data
        else:
            payload = self.chunk_writer().put_chunk(data)
        with self._editing() as changes:
            pending = changes.pending(self._require_place(path, index))
            if payload is None:
                pending.delete(index)
            else:
                pending.set(index, payload)

    def store_large(self, data: writers.ChunkData) -> writers.ChunkData | references.Native:
        """Stores a large chunk in a local file; for `change_chunks`, which stores all others.

        A thread that encodes one after the other needs memory for one. To a far store, more are
        sent at the same time than there are such threads.
        """
        self._require_writable()
        return data if self.files.store.far else self.chunk_writer().put_large(data)

    def store_packed(
        self, chunks: Iterable[Buffer | None]
    ) -> list[writers.ChunkData | references.Native | None]:
        """Stores chunks of a local store as they come, None for none, for `change_chunks`."""
        self._require_writable()
        return self.chunk_writer().put_packed(chunks)

    def stores_at_once(self, length: int) -> bool:
        """True if `store_large` stores a chunk of so many bytes, and keeps none of them."""
        return not self.files.store.far and self.chunk_writer().is_large(length)

    def change_chunks(
        self,
        path: NodePath,
        index: npt.NDArray[np.uint32],
        data: Sequence[writers.ChunkData | references.Native | None],
    ) -> None:
        """Stores many chunks, (m, ndim) and all different, at once; None deletes one."""
        if len(data) == 1:
            self._change_chunk(path, tuple(index[0].tolist()), data[0])
            return
        _, array, _ = self._array_with_changes(path)
        self._require_writable()
        _require_inside(path, index, array)
        is_deleted = np.array([each is None for each in data], np.bool_)
        native = references.Native
        is_stored = np.array([isinstance(each, native) for each in data], np.bool_)
        stored = [each for each in data if isinstance(each, native)]
        given = [each for each in data if each is not None and not isinstance(each, native)]
        wanted = index[~is_deleted & ~is_stored]
        refs = self.chunk_writer().put_chunks(wanted, given, self.files.pool)
        if stored:
            refs = references.ChunkRefs.concat(
                [refs, references.ChunkRefs.from_payloads(index[is_stored], stored)]
            )
        changed = edits.ChunkChanges(refs=refs, deleted=chunk_index.distinct(index[is_deleted]))
        with self._editing() as changes:
            node, array = self._find_array(path)
            _require_inside(path, index, array)
            changes.pending(node).change_many(changed)

    def set_chunk_if_absent(self, path: NodePath, index: edits.Index, data: Buffer) -> bool:
        """True if the chunk was set; of several concurrent calls one succeeds."""
        self._require_place(path, index)
        payload = None
        while True:
            base = self.base
            if self.chunk_payload(path, index) is not None:
                return False
            payload = payload or self.chunk_writer().put_chunk(data)
            with self._editing() as changes:
                if base is not self.base:
                    continue  # rebased since: another writer may have committed the chunk
                node = self._require_place(path, index)
                if self._pending_payload(node, index) not in (edits.UNTOUCHED, None):
                    return False
                changes.pending(node).set(index, payload)
                return True

    def set_chunk_refs(self, path: NodePath, refs: references.ChunkRefs) -> None:
        """Many references at once: virtual ones, or those a ChunkWriter made."""
        with self._editing() as changes:
            node, array = self._find_array(path)
            if refs.index.shape[1] != len(array.shape):
                raise _wrong_ndim(path, refs.index.shape[1], array)
            if len(refs) and len(refs.within(array.num_chunks)) != len(refs):
                last = tuple(stop - 1 for _, stop in refs.bounding_box())
                raise _outside_grid_error(path, last, array)
            changes.pending(node).set_many(refs)

    def attach_manifests(
        self,
        path: NodePath,
        attached: Sequence[attached_manifests.Attached],
        replaced: Sequence[ManifestId] = (),
        *,
        log_writer: attached_manifests.LogWriter | None = None,
    ) -> None:
        """Manifests that others wrote for the array, instead of those that they replace.

        `log_writer` stores the transaction log when the session is committed: there may be too
        many chunks to have it in memory here.
        """
        with self._editing() as changes:
            node, array = self._find_array(path)
            cell = splitting.cell_sizes(self.files.settings.splitting, node)
            changes.edited[path.text] = attached_manifests.attach_to_node(
                node, array, attached, replaced, cell=cell
            )
            changes.log_writer = log_writer or changes.log_writer
            gone = set(replaced)
            before = changes.attached.get(node.id, ())
            earlier = [each for each in before if attached_manifests.file_of(each) not in gone]
            changes.attached[node.id] = (*earlier, *attached)

    def delete_chunk(self, path: NodePath, index: edits.Index) -> None:
        """A change even if there was no such chunk; outside the grid nothing happens."""
        with self._editing() as changes:
            node, array = self._find_array(path)
            if _in_grid(index, array):
                changes.pending(node).delete(index)

    def delete_chunks(self, path: NodePath, index: npt.NDArray[np.uint32]) -> None:
        """Chunks that are there, (n, ndim)."""
        with self._editing() as changes:
            changes.pending(self._find_array(path)[0]).delete_many(index)

    def delete_chunks_under(self, path: NodePath, index_prefix: edits.Index) -> None:
        """All chunks whose index starts so."""
        self._require_writable()
        prefix = np.array(index_prefix, dtype=np.uint32)
        doomed = [
            refs.index[(refs.index[:, : len(prefix)] == prefix).all(axis=1)]
            for refs in self.chunk_refs(path)
        ]
        for index in doomed:
            if len(index):  # else nothing has changed
                self.delete_chunks(path, index)

    def shift_array(self, path: NodePath, offset: Iterable[int]) -> None:
        """Moves every chunk by so many places of the grid; those that leave it are dropped."""
        self._rearrange_chunks(path, lambda refs, grid: reads.shift_refs(refs, offset, grid))

    def reindex_array(
        self, path: NodePath, forward: reads.Rule, backward: reads.Rule | None = None
    ) -> None:
        """Moves every chunk to where `forward` says; see `reindex_refs`."""
        self._rearrange_chunks(
            path, lambda refs, grid: reads.reindex_refs(refs, forward, backward, grid)
        )

    # Shared parts

    def _find_chunk(
        self, path: NodePath, index: edits.Index
    ) -> tuple[Node, references.Payload | edits.Untouched | None]:
        """The array, and what is pending for one of its chunks; None outside the grid."""
        with self._state:
            node, array = self._find_array(path)
            return node, self._pending_payload(node, index) if _in_grid(index, array) else None

    def _array_with_changes(
        self, path: NodePath
    ) -> tuple[Node, ArrayData, edits.ChunkChanges | None]:
        with self._state:
            node, array = self._find_array(path)
            return node, array, self._pending_changes(node)

    def _pending_payload(
        self, node: Node, index: edits.Index
    ) -> references.Payload | edits.Untouched | None:
        """Pending payload of a chunk. The caller holds the state."""
        pending = self._changes.chunks.get(node.id)
        return edits.UNTOUCHED if pending is None else pending.find(index)

    def _pending_changes(self, node: Node) -> edits.ChunkChanges | None:
        """Pending changes of an array. The caller holds the state."""
        pending = self._changes.chunks.get(node.id)
        return None if pending is None else pending.changes()

    def _require_place(self, path: NodePath, index: edits.Index) -> Node:
        """The array, if the chunk can be written."""
        self._require_writable()
        node, array = self._find_array(path)
        if len(index) != len(array.num_chunks):
            raise _wrong_ndim(path, len(index), array)
        if not _in_grid(index, array):
            raise _outside_grid_error(path, index, array)
        return node

    def _rearrange_chunks(
        self,
        path: NodePath,
        change: Callable[[references.ChunkRefs, tuple[int, ...]], edits.ChunkChanges],
    ) -> None:
        node, array = self._find_array(path)
        self._require_writable()
        reads.require_regular_grid(node)
        refs = references.ChunkRefs.concat(
            [references.ChunkRefs.empty(len(array.shape)), *self.chunk_refs(path)]
        )
        # Not under a lock: `change` may call the user's functions, and these the session.
        changes = change(refs, array.num_chunks)
        with self._editing() as edited:
            if len(changes.index):
                edited.pending(self._find_array(path)[0]).change_many(changes)


def _in_grid(index: edits.Index, array: ArrayData) -> bool:
    return len(index) == len(array.num_chunks) and all(
        0 <= position < count for position, count in zip(index, array.num_chunks, strict=True)
    )


def _require_inside(path: NodePath, index: npt.NDArray[np.uint32], array: ArrayData) -> None:
    if index.shape[1:] != (len(array.num_chunks),):
        raise _wrong_ndim(path, index.shape[1], array)
    beyond = (index >= np.array(array.num_chunks, np.int64)).any(axis=1)
    if bool(beyond.any()):
        raise _outside_grid_error(path, tuple(index[np.argmax(beyond)].tolist()), array)


def _wrong_ndim(path: NodePath, ndim: int, array: ArrayData) -> InvalidInputError:
    return InvalidInputError(
        f"invalid chunk index: it has {ndim} coordinates, the array at `{path}` has"
        f" {len(array.shape)}",
        kind="invalid-chunk-index",
    )


def _outside_grid_error(path: NodePath, index: edits.Index, array: ArrayData) -> InvalidInputError:
    return InvalidInputError(
        f"invalid chunk index: {list(index)} is outside the grid of the array at `{path}`, which"
        f" is {list(array.num_chunks)} chunks",
        kind="invalid-chunk-index",
    )
