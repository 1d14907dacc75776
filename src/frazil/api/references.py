"""Chunks that are parts of files elsewhere, set through the store."""

import asyncio
from datetime import datetime
from functools import partial

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError, SessionStateError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.storage_config import Containers
from frazil.paths import NodePath
from frazil.zarrstore.keys import ChunkKey, require_key
from frazil.zarrstore.store import SessionStore
from frazil.zarrstore.virtual import (
    Locations,
    VirtualChunkSpec,
    refs_of_grid,
    refs_of_specs,
    virtual_payload,
)


class ReferencingStore(SessionStore):
    """The part of IcechunkStore that sets virtual references."""

    def set_virtual_ref(
        self,
        key: str,
        location: str,
        *,
        offset: int,
        length: int,
        checksum: str | datetime | None = None,
        validate_container: bool = True,
    ) -> None:
        """Makes a chunk a part of a file elsewhere.

        The file must be in a virtual chunk container, unless that is not to be checked.
        """
        self._check_writable()
        chunk = require_key(key)
        if not isinstance(chunk, ChunkKey):
            raise SessionStateError(
                f"this operation is not allowed: use .set to modify metadata for key {key}",
                kind="not-allowed",
            )
        payload = virtual_payload(
            location,
            offset=offset,
            length=length,
            checksum=checksum,
            containers=self._containers(checked=validate_container),
        )
        index = np.array([chunk.index], dtype=np.uint32).reshape(1, len(chunk.index))
        self.engine.set_chunk_refs(chunk.path, ChunkRefs.from_payloads(index, [payload]))

    async def set_virtual_ref_async(
        self,
        key: str,
        location: str,
        *,
        offset: int,
        length: int,
        checksum: str | datetime | None = None,
        validate_container: bool = True,
    ) -> None:
        await self._edit(
            partial(
                self.set_virtual_ref,
                key,
                location,
                offset=offset,
                length=length,
                checksum=checksum,
                validate_container=validate_container,
            )
        )

    def set_virtual_refs(
        self,
        array_path: str,
        chunks: list[VirtualChunkSpec],
        *,
        validate_containers: bool = True,
    ) -> list[tuple[int, ...]] | None:
        """Makes chunks parts of files elsewhere: all of them, or none if one is wrong.

        Those whose file is in no virtual chunk container are left out, and their indices returned;
        unless that is not to be checked.
        """
        self._check_writable()
        path = NodePath.from_key_prefix(array_path)
        array = self.engine.node(path).array
        if array is None:
            raise InvalidInputError(f"there is not an array at `{path}`", kind="not-an-array")
        containers = self._containers(checked=validate_containers)
        checked = refs_of_specs(chunks, ndim=len(array.shape), containers=containers)
        self.engine.set_chunk_refs(path, checked.refs)
        return checked.refused or None

    async def set_virtual_refs_async(
        self,
        array_path: str,
        chunks: list[VirtualChunkSpec],
        *,
        validate_containers: bool = True,
    ) -> list[tuple[int, ...]] | None:
        return await asyncio.to_thread(
            self.set_virtual_refs, array_path, chunks, validate_containers=validate_containers
        )

    def set_virtual_refs_arr(
        self,
        array_path: str,
        chunk_grid_shape: tuple[int, ...],
        locations: Locations,
        offsets: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.uint64],
        *,
        validate_containers: bool = True,
        arr_offset: tuple[int, ...] | None = None,
        checksum: datetime | str | None = None,
    ) -> list[tuple[int, ...]] | None:
        """Makes a whole block of chunks parts of files elsewhere, last dimension fastest.

        The block begins at chunk `arr_offset`; chunks with an empty location stay as they are.
        Locations are given one by one, as CodedLocations, or as an Arrow column. Chunks whose file
        is in no virtual chunk container are left out, and their indices returned, unless that is
        not to be checked.
        """
        self._check_writable()
        checked = refs_of_grid(
            chunk_grid_shape,
            locations,
            offsets,
            lengths,
            first=arr_offset,
            checksum=checksum,
            containers=self._containers(checked=validate_containers),
        )
        self.engine.set_chunk_refs(NodePath.from_key_prefix(array_path), checked.refs)
        return checked.refused or None

    async def set_virtual_refs_arr_async(
        self,
        array_path: str,
        chunk_grid_shape: tuple[int, ...],
        locations: Locations,
        offsets: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.uint64],
        *,
        validate_containers: bool = True,
        arr_offset: tuple[int, ...] | None = None,
        checksum: datetime | str | None = None,
    ) -> list[tuple[int, ...]] | None:
        return await asyncio.to_thread(
            self.set_virtual_refs_arr,
            array_path,
            chunk_grid_shape,
            locations,
            offsets,
            lengths,
            validate_containers=validate_containers,
            arr_offset=arr_offset,
            checksum=checksum,
        )

    def _containers(self, *, checked: bool) -> Containers | None:
        return self.engine.files.settings.virtual.all_containers() if checked else None
