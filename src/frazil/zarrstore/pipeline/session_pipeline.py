"""Frazil's codec pipeline."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self, cast

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.codec import Codec, CodecPipeline
from zarr.abc.store import Store
from zarr.codecs import ShardingCodec
from zarr.core.array import create_codec_pipeline
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import get_pipeline_class, register_pipeline
from zarr.storage import StorePath

from frazil.dataclass import dataclass
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.lazy import lazy_module
from frazil.zarrstore.pipeline.coding import (
    ARE_THERE,
    Coding,
    FusedCodecPipeline,
    GetResult,
    fused_pipeline,
)

if TYPE_CHECKING:
    from frazil.zarrstore.pipeline import reading, shards, writing
    from frazil.zarrstore.pipeline.reading import Batch, Item
    from frazil.zarrstore.pipeline.shards import Sharding
else:  # an array that is opened need not be read
    reading = lazy_module("frazil.zarrstore.pipeline.reading")
    shards = lazy_module("frazil.zarrstore.pipeline.shards")
    writing = lazy_module("frazil.zarrstore.pipeline.writing")

# The codec pipeline that was configured before frazil's.


class Replaced:
    """Serves the stores that are not frazil's."""

    def __init__(self) -> None:
        self.pipeline: type[CodecPipeline] = BatchedCodecPipeline


replaced = Replaced()


@dataclass(frozen=True, slots=True)
class SessionPipeline(CodecPipeline):
    """The codecs of one array in a session.

    A selection is planned as a whole: its chunks are found by one lookup, fetched together and
    decoded on threads. Unusual cases are left to zarr's own pipeline: shards that are written
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
        is_sharded = any(isinstance(codec, ShardingCodec) for codec in usual)
        misfit = shards.find_shard_misfit(array_metadata.to_dict()) if is_sharded else None
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
        self, batch_info: "Iterable[Item]", out: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> tuple[GetResult, ...]:
        items = list(batch_info)
        if not _is_usual(items, out):
            return await self.usual.read(items, out, drop_axes)
        batch, values = reading.Batch.of(items, drop_axes), np.asarray(out.as_ndarray_like())
        work = partial(self.read_batch, batch, values)
        is_quick = self._read_bytes(batch, values) <= reading.QUICK_BYTES
        if is_quick and reading.is_near(batch) and _is_alone():
            found = work()  # two changes of thread take as long as reading a few chunks
        else:
            found = await asyncio.to_thread(work)
        return await self.usual.read(items, out, drop_axes) if found is None else found

    def sharding(self, spec: ArraySpec) -> "Sharding | None":
        """The codec for chunks of this kind; None if it is none, or another than zarr's."""
        codec = self.usual.array_bytes_codec
        return shards.sharding_of(codec, spec) if type(codec) is ShardingCodec else None

    def read_batch(
        self, batch: "Batch", out: npt.NDArray[Any], sharding: "Sharding | None" = None
    ) -> tuple[GetResult, ...] | None:
        """Like `read`, on this thread; None if zarr's own pipeline has to do it.

        `sharding` is that of the chunks, if the caller has it.
        """
        if not self.supports_partial_decode:
            return reading.read_batch(batch, self.coding, out)
        sharding = sharding or self.sharding(batch.items[0][1])
        return None if sharding is None else shards.read_shards(batch, sharding, out)

    def _read_bytes(self, batch: "Batch", out: npt.NDArray[Any]) -> int:
        """Decoded bytes that a selection needs, about."""
        if self.supports_partial_decode:
            return shards.inner_read_bytes(self.usual.array_bytes_codec, out)
        return reading.read_bytes(batch, self.coding, out)

    async def write(
        self, batch_info: "Iterable[Item]", value: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> None:
        self._require_fitting()
        items = list(batch_info)
        if not _is_usual(items, value):
            await self.usual.write(items, value, drop_axes)
            return
        values = np.asarray(value.as_ndarray_like())
        if self.supports_partial_encode:
            sharding = None if writing.is_enabled() else self.sharding(items[0][1])
            if sharding is not None:
                batch = reading.Batch.of(items, drop_axes)
                done = await _write(batch, partial(shards.write_shards, batch, sharding, values))
                items = items[done:]
            # of a shard that is written in part, parts stay as they are, outside of the array too
            parts = [item for item in items if not _is_total(item)]
            await self.usual.write(parts, value, drop_axes)
            items = [item for item in items if _is_total(item)]
        if not items:
            return
        batch = reading.Batch.of(items, drop_axes)
        if writing.may_wait(batch):
            await writing.write_together(batch, self.coding, values)
        else:
            await _write(batch, partial(writing.write_batch, batch, self.coding, values))

    def write_batch(
        self, batch: "Batch", values: npt.NDArray[Any], sharding: "Sharding | None" = None
    ) -> bool:
        """Like `write`, on this thread; False if zarr's own pipeline has to do it again."""
        self._require_fitting()
        if not self.supports_partial_encode:
            writing.write_batch(batch, self.coding, values)
            return True
        sharding = sharding or self.sharding(batch.items[0][1])
        if sharding is None:
            return False
        return shards.write_shards(batch, sharding, values) == len(batch.items)

    def _require_fitting(self) -> None:
        if self.misfit is not None:
            raise InvalidInputError(
                f"cannot write to the array: {self.misfit}", kind="bad-metadata"
            )


async def _write[T](batch: "Batch", work: Callable[[], T]) -> T:
    """Returns what `work` does, which writes these chunks; on this thread if that is quick."""
    if reading.chunk_bytes(batch) * len(batch.items) <= writing.QUICK_BYTES and _is_alone():
        with batch.engine.unless_busy() as is_free:
            if is_free and reading.is_near(batch):
                return work()
    return await asyncio.to_thread(work)


def _is_alone() -> bool:
    """True if nothing else uses the event loop of this thread."""
    return len(asyncio.all_tasks()) == 1


def is_of_session(store: Store) -> bool:
    """True if the store is frazil's: the module of that class imports this one."""
    return isinstance(getattr(store, "engine", None), Session)


def _is_usual(items: "list[Item]", values: NDBuffer) -> bool:
    """True if there are chunks, of an array in a session, and values in the host's memory."""
    return (
        bool(items)
        and isinstance(items[0][0], StorePath)
        and is_of_session(items[0][0].store)
        and isinstance(values.as_ndarray_like(), np.ndarray)
    )


def _is_total(item: "Item") -> bool:
    """True if every value of the chunk is selected, those outside of the array included."""
    _, spec, selection, _, is_whole = item
    return is_whole and all(
        isinstance(part, slice) and len(range(length)[part]) == length
        for part, length in zip(selection, spec.shape, strict=True)
    )


# Choice of zarr's codec pipeline.
#
# Zarr takes the class of its pipeline from its configuration, for all stores alike. When a frazil
# store is first opened, frazil's class takes the place of zarr's default one; what it is asked for
# arrays in other stores it hands on to the one it replaced. Nothing happens if the user has chosen
# a pipeline before, or wants none of ours:
#
#     zarr.config.set({"frazil.codec_pipeline": False})    or in the environment
#     ZARR_FRAZIL__CODEC_PIPELINE=False

PATH: Final = "codec_pipeline.path"
WANTED: Final = "frazil.codec_pipeline"


class _Choice:
    """Runs once in a process: later changes of zarr's configuration win."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_made = False

    def make(self) -> None:
        with self._lock:
            if not self._is_made:
                self._is_made = True
                self._choose()

    def _choose(self) -> None:
        current = get_pipeline_class()
        is_default = current is BatchedCodecPipeline
        if ARE_THERE and is_default and zarr.config.get(WANTED, True):
            replaced.pipeline = current
            register_pipeline(SessionPipeline)
            name = f"{SessionPipeline.__module__}.{SessionPipeline.__qualname__}"
            zarr.config.set({PATH: name})


_choice = _Choice()


def use_pipeline() -> None:
    """Makes zarr use frazil's pipeline for frazil's stores, unless it is switched off."""
    _choice.make()
