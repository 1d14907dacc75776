"""Every decoder of bytes that come from a stranger, as a function of bytes alone.

A reader returns, or raises what its target allows: anything else is a finding. Files of version 1
and 2 are read without compression, whose checks would hide what lies behind them from a fuzzer;
`envelope` and `locations` are about the compression itself.
"""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import zstandard

from frazil.describe.inspect import dump_file
from frazil.engine.changes.zarr_metadata import parse_node_metadata
from frazil.errors import FormatError, InvalidInputError, StorageError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.flexbuffers import decode_flexbuffer
from frazil.format.config_codec import decode_config, decode_config_yaml
from frazil.format.envelope import (
    COMPRESSION_NONE,
    FileType,
    Header,
    decode_envelope,
    encode_header,
)
from frazil.format.locations import EncodedLocations, decode_locations
from frazil.format.manifest import decode_manifest
from frazil.format.nodes import Nodes
from frazil.format.projections import decode_chunk_ids, decode_manifest_files, decode_storage_refs
from frazil.format.ref_file import decode_ref
from frazil.format.repo_info import decode_log_page, decode_repo_info
from frazil.format.snapshot import (
    decode_node_names,
    decode_snapshot,
    decode_snapshot_head,
    decode_snapshot_lazily,
)
from frazil.format.transaction_log import decode_txlog, decode_txlogs
from frazil.format.urls import normalize_location, place_of
from frazil.generations.alpha_manifest import decode_old_manifest
from frazil.generations.alpha_metadata import decode_old_config
from frazil.generations.alpha_refs import decode_old_ref
from frazil.generations.alpha_snapshot import decode_old_log, decode_old_snapshot
from frazil.generations.early_v2 import has_early_values
from frazil.generations.recognition import Traces, late_generation
from frazil.generations.v2pre import (
    decode_early_log_page,
    decode_early_repo_info,
    decode_early_snapshot,
    is_early_repo_info,
)
from frazil.ids import ManifestId, SnapshotId
from frazil.maintenance.inventory import FileInventory, FileKind
from frazil.maintenance.stats import pieces_of
from frazil.objectstore.archive import ArchiveStore, ArchiveWriter
from frazil.paths import ROOT, NodePath
from frazil.references.json_sets import decode_json_set
from frazil.references.plan import plan_import
from frazil.zarrstore.array_codecs import chunk_problem, encode_region
from frazil.zarrstore.pipeline.coding import zstd_size
from frazil.zarrstore.pipeline.reading import _MEASURES
from tests.fuzz import seeds
from tests.fuzz.target import Target

MAX_BYTES = 1 << 24  # a payload that a fuzzed file may have


def _wrapped(kind: FileType, content: bytes) -> bytes:
    """The first byte says which version the file is of."""
    version = 1 + (content[:1] < b"\x80")
    return encode_header(Header("fuzz", version, kind, COMPRESSION_NONE)) + content[1:]


def _seeded(files: Callable[[], Sequence[bytes]]) -> Callable[[], list[bytes]]:
    return lambda: [first + each for each in files() for first in (b"\0", b"\xff")]


def _envelope(data: bytes) -> None:
    for kind in FileType:
        with suppress(FormatError):
            decode_envelope(data, kind, max_size=MAX_BYTES)
    dump_file(data)


def _snapshot(data: bytes) -> None:
    file = _wrapped(FileType.SNAPSHOT, data)
    with suppress(FormatError):
        decode_manifest_files([file, file])
    with suppress(FormatError):
        decode_node_names(file)
    with suppress(FormatError):
        decode_snapshot_head(file)
    with suppress(FormatError):
        decode_snapshot_lazily(file).nodes.lookup(NodePath("/group/array"))
    with suppress(FormatError):
        dump_file(file)
    with suppress(FormatError):
        decode_early_snapshot(file, {})
    found = decode_snapshot(file)
    for node in found.nodes:
        with suppress(InvalidInputError):
            parse_node_metadata(node.user_data)


def _manifest(data: bytes) -> None:
    file = _wrapped(FileType.MANIFEST, data)
    with suppress(FormatError):
        decode_chunk_ids([file, file])
    with suppress(FormatError):
        list(pieces_of(decode_storage_refs([file, file])))
    with suppress(FormatError):
        dump_file(file)
    for refs in decode_manifest(file).arrays.values():
        for row in range(min(len(refs), 50)):
            refs.payload(row)
        refs.location.to_list()
        refs.lookup(refs.index)


def _log(data: bytes) -> None:
    file = _wrapped(FileType.TRANSACTION_LOG, data)
    with suppress(FormatError):
        dump_file(file)
    with suppress(FormatError):
        decode_txlogs([file, file])
    decode_txlog(file)


def _repo_info(data: bytes) -> None:
    file = _wrapped(FileType.REPO_INFO, data)
    with suppress(FormatError):
        dump_file(file)
    with suppress(FormatError):
        decode_log_page(file)
    with suppress(FormatError):
        if is_early_repo_info(file):
            decode_early_repo_info(file)
    with suppress(FormatError):
        decode_early_log_page(file)
    info = decode_repo_info(file)
    has_early_values(info)
    for row in range(len(info.snapshots)):
        info.snapshots.message(row)
        info.snapshots.metadata(row)
        info.snapshots.pruned_logs(row)
        list(info.snapshots.ancestors(row))
    decode_config(info.config or {})
    list(info.updates)


def _yaml(data: bytes) -> None:
    with suppress(FormatError):
        decode_config(decode_old_config(data))
    decode_config(decode_config_yaml(data))


def _flexbuffer(data: bytes) -> None:
    decode_config(decode_flexbuffer(data))


def _old_snapshot(data: bytes) -> None:
    with suppress(FormatError):
        late_generation(data, Traces(data, is_first=False, has_logs=False, has_config=False))
    list(decode_old_snapshot(data, SnapshotId(bytes(12)), max_size=MAX_BYTES).snapshot.nodes)


def _old_manifest(data: bytes) -> None:
    found = decode_old_manifest(data, ManifestId(bytes(12)), max_size=MAX_BYTES).resolved({})
    for refs in found.arrays.values():
        for row in range(min(len(refs), 50)):
            refs.payload(row)


def _old_log(data: bytes) -> None:
    decode_old_log(data, SnapshotId(bytes(12)), max_size=MAX_BYTES).resolved(Nodes.empty())


def _ref(data: bytes) -> None:
    with suppress(FormatError):
        decode_old_ref(data)
    decode_ref(data)


def _kerchunk(data: bytes) -> None:
    plan_import(
        decode_json_set("fuzz", data),
        group=ROOT,
        root="s3://bucket/",
        last_modified=0,
        sizes_of=lambda texts: np.ones(len(texts), np.uint64),
    )


def _in_a_file(read: Callable[[Path], object], suffix: str, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(suffix)
    path = Path(name)
    try:
        os.write(descriptor, data)
        os.close(descriptor)
        read(path)
    finally:
        path.unlink()


def _inventory(path: Path) -> None:
    found = FileInventory.of(path)
    for kind in FileKind:
        list(found.pieces(kind))
    list(found.others(""))


def _bundle(path: Path) -> None:
    store = ArchiveStore(path)
    for info in store.list():
        with suppress(StorageError, FormatError, InvalidInputError):
            store.get(info.key)
    store.about()


def _bundles() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.frazil"
        with ArchiveWriter(path, {"format": "frazil bundle", "version": 1}) as archive:
            archive.put("repo", b"repo")
            archive.put("chunks/VY76P925PRY57WFEK410", b"chunk")
        return [path.read_bytes()]


def _locations(data: bytes) -> None:
    """The dictionary, then frames; each after its length."""
    parts: list[bytes] = []
    while data and len(parts) < 20:
        size = data[0]
        parts.append(data[1 : 1 + size])
        data = data[1 + size :]
    dictionary, *frames = parts or [b"", b""]
    column = StringColumn.from_list(list(frames) or [b""])
    encoded = EncodedLocations(StringColumn.absent(len(column)), column, dictionary)
    found = decode_locations(encoded, 1)
    with suppress(FormatError):
        found.item(0)
    found.to_list()


def _location_seeds() -> list[bytes]:
    dictionary = zstandard.ZstdCompressionDict(b"s3://bucket/a/long/prefix/" * 4)
    made = []
    for sized in (True, False):
        compressor = zstandard.ZstdCompressor(dict_data=dictionary, write_content_size=sized)
        frames = [compressor.compress(b"s3://bucket/a/long/prefix/%d.nc" % n) for n in range(3)]
        made.append(b"".join(bytes([len(p)]) + p for p in (dictionary.as_bytes(), *frames)))
    return made


def _url(data: bytes) -> None:
    place_of(normalize_location(data.decode(errors="surrogateescape")))


def _zarr_json(data: bytes) -> None:
    parse_node_metadata(data)


CODECS: tuple[list[dict[str, object]], ...] = (
    [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    [{"name": "gzip", "configuration": {"level": 1}}],
    [{"name": "crc32c"}],
    [
        {
            "name": "blosc",
            "configuration": {
                "cname": "lz4", "clevel": 1, "shuffle": "shuffle", "typesize": 4, "blocksize": 0
            },
        }
    ],
    [{"name": "zstd", "configuration": {"level": 1, "checksum": True}}, {"name": "crc32c"}],
)  # fmt: skip


def _chunk_document(codecs: list[dict[str, object]]) -> bytes:
    document = json.loads(seeds.ZARR_JSON)
    return json.dumps({**document, "codecs": [*document["codecs"], *codecs]}).encode()


def _chunk(data: bytes) -> None:
    """The first byte says which codecs; no bytes may end the process."""
    codecs = CODECS[data[0] % len(CODECS)] if data else CODECS[0]
    packed = data[1:]
    for measure in _MEASURES.values():
        measure(memoryview(packed), 1 << 20)
    zstd_size(packed)
    chunk_problem(_chunk_document(codecs), (0, 0), packed)


def _chunk_seeds() -> list[bytes]:
    found = []
    for number, codecs in enumerate(CODECS):
        document = _chunk_document(codecs)
        made = encode_region(document, (slice(0, 2), slice(0, 3)), np.ones((2, 3), "f4"))
        found.append(bytes([number]) + bytes(made[0, 0]))
    return found


def _bare(*names: str) -> Callable[[], list[bytes]]:
    return lambda: [each.encode() for each in names]


TARGETS: dict[str, Target] = {
    "envelope": Target(
        _envelope,
        lambda: [seeds.compressed_manifest(), *seeds.of_folders("snapshots", "manifests", "repo")],
    ),
    "snapshot": Target(_snapshot, _seeded(seeds.snapshots)),
    "manifest": Target(_manifest, _seeded(seeds.manifests)),
    "transaction_log": Target(_log, _seeded(seeds.logs)),
    "repo_info": Target(_repo_info, _seeded(seeds.repo_infos)),
    "config_yaml": Target(_yaml, seeds.yaml_configs),
    "flexbuffers": Target(_flexbuffer, seeds.flexbuffers),
    "old_snapshot": Target(
        _old_snapshot, lambda: seeds.old_payloads(FileType.SNAPSHOT, "s", "snapshots")
    ),
    "old_manifest": Target(
        _old_manifest, lambda: seeds.old_payloads(FileType.MANIFEST, "m", "manifests")
    ),
    "old_log": Target(
        _old_log, lambda: seeds.old_payloads(FileType.TRANSACTION_LOG, "transactions")
    ),
    "ref": Target(
        _ref, _bare('{"snapshot":"1CECHNKREP0F1RSTCMT0"}', '{"snapshot":[1],"timestamp":"x"}')
    ),
    "kerchunk": Target(_kerchunk, lambda: [seeds.KERCHUNK]),
    "inventory": Target(
        partial(_in_a_file, _inventory, ".csv"),
        lambda: [seeds.INVENTORY],
        (FormatError, InvalidInputError),
    ),
    "bundle": Target(
        partial(_in_a_file, _bundle, ".frazil"), _bundles, (FormatError, StorageError)
    ),
    "locations": Target(_locations, _location_seeds),
    "chunk": Target(_chunk, _chunk_seeds),
    "zarr_json": Target(_zarr_json, lambda: [seeds.ZARR_JSON], (InvalidInputError,)),
    "url": Target(
        _url,
        _bare("s3://bucket/key?x#y", "file:///a/../b%2e%2e/c", "vcc://name/a", "http://u@h:1/%41"),
        (InvalidInputError,),
    ),
}
