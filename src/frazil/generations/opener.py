"""The seam to the engine: implements `OlderGenerations` of engine/refs/entries.py."""

from collections.abc import Buffer
from typing import Final

from frazil.clock import Clock
from frazil.engine.files.caches import Caches
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import REPO_INFO
from frazil.engine.files.settings import Settings
from frazil.engine.refs.entries import OlderGenerations
from frazil.engine.refs.entry import EntryPoint
from frazil.errors import ObjectNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.generation import Generation
from frazil.format.limits import Limits
from frazil.generations.msgpack_values import dump_old
from frazil.generations.older_entries import AlphaEntry, V2preEntry
from frazil.generations.older_files import AlphaFiles, V2preFiles
from frazil.generations.recognition import old_generation
from frazil.generations.v2pre import is_early_repo_info
from frazil.objectstore.protocol import ObjectStore


class Opener:
    def recognise(self, store: ObjectStore) -> Generation | None:
        return old_generation(store)

    def holds_v2pre(self, store: ObjectStore, limits: Limits) -> bool:
        try:
            data = store.get(REPO_INFO).data
        except ObjectNotFoundError:
            return False
        return is_early_repo_info(data, max_size=limits.payload_bytes(len(data)))

    def open_files(self, store: ObjectStore, settings: Settings, caches: Caches | None) -> Files:
        if settings.generation is Generation.V2PRE:
            return V2preFiles(store, settings, caches)
        return AlphaFiles(store, settings, caches)

    def open_entry(self, files: Files, clock: Clock) -> EntryPoint:
        match files:
            case AlphaFiles():
                return AlphaEntry(files, clock)
            case V2preFiles():
                return V2preEntry(files, clock)
            case _:
                raise TypeError(f"{files!r} were not opened here")

    def dump(self, data: Buffer, *, max_rows: int | None) -> dict[str, Json] | None:
        return dump_old(data, max_rows=max_rows)


OPENER: Final[OlderGenerations] = Opener()
