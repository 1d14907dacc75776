"""Frazil's codec pipeline."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from zarr.abc.codec import Codec, CodecPipeline
from zarr.abc.store import Store
from zarr.codecs import ShardingCodec
from zarr.core.array import create_codec_pipeline
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.storage import StorePath

from frazil.errors import InvalidInputError
from frazil.repo.packing import PACKED_BYTES
from frazil.repo.session import Session
from frazil.zarrstore.pipeline.batch import Batch, Item
from frazil.zarrstore.pipeline.coding import Coding
from frazil.zarrstore.pipeline.fused import fused_pipeline
from frazil.zarrstore.pipeline.reading import chunk_bytes, read_batch
from frazil.zarrstore.pipeline.replaced import replaced
from frazil.zarrstore.pipeline.shards import read_shards
from frazil.zarrstore.pipeline.writing import write_batch
from frazil.zarrstore.pipeline.writing_together import is_wanted, write_together
from frazil.zarrstore.pipeline.zarr_parts import FusedCodecPipeline
from frazil.zarrstore.shard_fit import find_shard_misfit


@dataclass(frozen=True)
class SessionPipeline(CodecPipeline):
    """The codecs of one array in a session.

    A selection is planned as a whole: its chunks are found by one lookup, fetched together and
    decoded on threads. Whatever is unusual is left to zarr's own pipeline: shards that are written
    in part, codecs that only work asynchronously, memory that is not the host's.
    """

    usual: FusedCodecPipeline
    coding: Coding
    misfit: str | None = None  # why nothing may be written

    @classmethod
    def from_codecs(cls, codecs: Iterable[Codec]) -> Self:
        """Not one of these: without a store, this is for the pipeline that was replaced."""
        return cast("Self", replaced.pipeline.from_codecs(codecs))

    @classmethod
    def from_array_metadata_and_store(cls, array_metadata: Any, store: Store) -> Self:
        """One of these for a session's store, else what the pipeline that was replaced makes."""
        if not is_of_session(store):
            made = replaced.pipeline.from_array_metadata_and_store(array_metadata, store)
            return cast("Self", made)
        usual: Any = create_codec_pipeline(array_metadata)  # of the class that was replaced
        coding = Coding.of(tuple(usual))
        if coding is None:
            return cast("Self", usual)
        misfit = find_shard_misfit(array_metadata.to_dict())
        return cls(fused_pipeline(coding, usual.batch_size), coding, misfit)

    # What is the same for every pipeline

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        evolved = self.usual.evolve_from_array_spec(array_spec)
        coding = Coding.of(evolved.codecs)
        return (
            cast("Self", evolved) if coding is None else replace(self, usual=evolved, coding=coding)
        )

    def __iter__(self) -> Iterator[Codec]:
        return iter(self.usual)

    @property
    def supports_partial_decode(self) -> bool:
        return self.usual.supports_partial_decode

    @property
    def supports_partial_encode(self) -> bool:
        return self.usual.supports_partial_encode

    def validate(self, **what: Any) -> None:
        self.usual.validate(**what)

    def compute_encoded_size(self, byte_length: int, array_spec: ArraySpec) -> int:
        return self.usual.compute_encoded_size(byte_length, array_spec)

    async def decode(
        self, chunk_bytes_and_specs: Iterable[tuple[Buffer | None, ArraySpec]]
    ) -> Iterable[NDBuffer | None]:
        return await self.usual.decode(chunk_bytes_and_specs)

    async def encode(
        self, chunk_arrays_and_specs: Iterable[tuple[NDBuffer | None, ArraySpec]]
    ) -> Iterable[Buffer | None]:
        return await self.usual.encode(chunk_arrays_and_specs)

    # What is not

    async def read(
        self, batch_info: Iterable[Item], out: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> tuple[Any, ...]:
        items = list(batch_info)
        if not _is_usual(items, out):
            return await self.usual.read(items, out, drop_axes)
        batch = Batch.of(items, drop_axes)
        if not self.supports_partial_decode:
            return await asyncio.to_thread(read_batch, batch, self.coding, out)
        found = None
        if type(self.usual.array_bytes_codec) is ShardingCodec:
            found = await asyncio.to_thread(read_shards, batch, self.usual.array_bytes_codec, out)
        return await self.usual.read(items, out, drop_axes) if found is None else found

    async def write(
        self, batch_info: Iterable[Item], value: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> None:
        if self.misfit is not None:
            raise InvalidInputError(
                f"cannot write to the array: {self.misfit}", kind="bad-metadata"
            )
        items = list(batch_info)
        if not _is_usual(items, value):
            await self.usual.write(items, value, drop_axes)
            return
        if self.supports_partial_encode:
            # of a shard that is written in part, parts stay as they are, outside of the array too
            parts = [item for item in items if not _is_total(item)]
            await self.usual.write(parts, value, drop_axes)
            items = [item for item in items if _is_total(item)]
        if not items:
            return
        batch = Batch.of(items, drop_axes)
        if len(items) == 1 and chunk_bytes(batch) <= PACKED_BYTES and is_wanted():
            await write_together(batch, self.coding, value)
        else:
            await asyncio.to_thread(write_batch, batch, self.coding, value)


def is_of_session(store: Store) -> bool:
    """Whether it is frazil's: the module of that class needs this one."""
    return isinstance(getattr(store, "engine", None), Session)


def _is_usual(items: list[Item], values: NDBuffer) -> bool:
    """Whether there are chunks, of an array in a session, and values in the memory of the host."""
    return (
        bool(items)
        and isinstance(items[0][0], StorePath)
        and is_of_session(items[0][0].store)
        and isinstance(values.as_ndarray_like(), np.ndarray)
    )


def _is_total(item: Item) -> bool:
    """Whether every value of the chunk is selected, those outside of the array included."""
    _, spec, selection, _, is_whole = item
    return is_whole and all(
        isinstance(part, slice) and len(range(length)[part]) == length
        for part, length in zip(selection, spec.shape, strict=True)
    )
