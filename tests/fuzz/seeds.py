"""What the fuzzer starts from: small files of every kind, and what the fixtures hold."""

import json
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json, encode_flexbuffer
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.config import RepositoryConfig
from frazil.format.config_codec import encode_config, encode_config_yaml
from frazil.format.envelope import FileType, decode_envelope, decode_header
from frazil.format.locations import LocationCompression
from frazil.format.manifest import Manifest, encode_manifest
from frazil.format.repo_info import encode_repo_info
from frazil.format.snapshot import encode_snapshot
from frazil.format.storage_config import S3Options, S3StoreConfig, VirtualChunkContainer
from frazil.format.transaction_log import encode_txlog
from frazil.generations.msgpack_values import payload
from tests.unit.format.samples import (
    ARRAY_ID,
    MANIFEST_ID,
    sample_log,
    sample_manifest,
    sample_nodes,
    sample_repo_info,
    sample_snapshot,
    snapshot_v1,
)

ROOT = Path(__file__).parents[2]
# The second is there where the project is worked on, and has more of the same.
PLACES = (
    ROOT / "tests/conformance/fixtures/generations",
    ROOT.parent / "shared/fixtures",
)
LARGEST_BYTES = 8192  # of a seed: small ones are mutated more often
ZARR_JSON = json.dumps(
    {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4, 6],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN",
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "dimension_names": ["y", None],
        "attributes": {"units": "K", "deep": [1, {"a": [None, True, 1e300]}]},
    }
).encode()
KERCHUNK = json.dumps(
    {
        "version": 1,
        "templates": {"u": "s3://bucket/data", "f": "{{c}}.nc"},
        "gen": [
            {
                "key": "a/{{i}}.{{j}}",
                "url": "{{u}}/{{'%02d' % (i * 2 + 1)}}-{{f(c='x')}}",
                "offset": "{{(i + 1) * 1000}}",
                "length": "10",
                "dimensions": {"i": {"stop": 2}, "j": [0, 1]},
            }
        ],
        "refs": {
            ".zgroup": '{"zarr_format": 2}',
            "a/.zarray": json.dumps(
                {
                    "zarr_format": 2,
                    "shape": [4, 4],
                    "chunks": [2, 2],
                    "dtype": "<f4",
                    "fill_value": None,
                    "order": "C",
                    "compressor": {"id": "zlib", "level": 1},
                    "filters": [{"id": "shuffle", "elementsize": 4}],
                }
            ),
            "a/.zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"]},
            "b/.zarray": '{"zarr_format":2,"shape":[2],"chunks":[1],"dtype":"|u1","fill_value":0,'
            '"order":"C","compressor":null,"filters":null}',
            "b/0": "base64:AA==",
            "b/1": ["{{u}}/whole.bin"],
        },
    }
).encode()
INVENTORY = (
    b"key,size,last_modified\n"
    b"snapshots/1CECHNKREP0F1RSTCMT0,12,2024-01-02T03:04:05Z\n"
    b"chunks/VY76P925PRY57WFEK410,12,1700000000000000\n"
)


@cache
def archived() -> dict[str, tuple[bytes, ...]]:
    """Files of all fixtures by the folder they are in, smallest first."""
    found: dict[str, set[bytes]] = {}
    for place in PLACES:
        for archive in sorted(place.glob("*.tar.gz")):
            for folder, data in _members(archive):
                if len(data) <= LARGEST_BYTES:
                    found.setdefault(folder, set()).add(data)
    return {folder: tuple(sorted(data, key=len)) for folder, data in found.items()}


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            opened = packed.extractfile(member) if member.isfile() else None
            if opened is not None:
                parts = member.name.split("/")
                yield (parts[-2] if len(parts) > 1 else parts[-1]), opened.read()
                if parts[-1] in {"config.yaml", "repo"}:
                    opened.seek(0)
                    yield parts[-1], opened.read()


def of_folders(*folders: str) -> list[bytes]:
    return [data for folder in folders for data in archived().get(folder, ())]


def payloads(kind: FileType, files: list[bytes]) -> list[bytes]:
    """What is in files of a kind, without envelope and compression."""
    found = []
    for data in files:
        try:
            if decode_header(data).file_type is kind:
                found.append(decode_envelope(data, kind).data)
        except FormatError:
            continue
    return [each for each in found if len(each) <= LARGEST_BYTES]


def old_payloads(kind: FileType, *folders: str) -> list[bytes]:
    """The same of the generations before version 1."""
    found = []
    for data in of_folders(*folders):
        try:
            found.append(payload(data, kind, max_size=LARGEST_BYTES))
        except FormatError:
            continue
    return found


def snapshots() -> list[bytes]:
    old = snapshot_v1(sample_nodes(), [(10, 10), ()], metadata={"k": [1, "x"]})
    made = [encode_snapshot(sample_snapshot()), old]
    return payloads(FileType.SNAPSHOT, [*made, *of_folders("snapshots")])


def compressed_manifest() -> bytes:
    names = [f"s3://bucket/a/long/prefix/of/many/files/file-{place:05}.nc" for place in range(20)]
    refs = ChunkRefs.virtual(np.arange(20, dtype=np.uint32).reshape(-1, 1), names, 0, 1)
    manifest = Manifest(MANIFEST_ID, {ARRAY_ID: refs})
    return encode_manifest(manifest, location_compression=LocationCompression(10))


def manifests() -> list[bytes]:
    made = [encode_manifest(sample_manifest()), compressed_manifest()]
    return payloads(FileType.MANIFEST, [*made, *of_folders("manifests")])


def logs() -> list[bytes]:
    made = [encode_txlog(sample_log())]
    return payloads(FileType.TRANSACTION_LOG, [*made, *of_folders("transactions")])


def repo_infos() -> list[bytes]:
    made = [encode_repo_info(sample_repo_info())]
    return payloads(FileType.REPO_INFO, [*made, *of_folders("repo", "overwritten")])


def configs() -> list[RepositoryConfig]:
    full = RepositoryConfig.default()
    full.set_virtual_chunk_container(
        VirtualChunkContainer("s3://bucket/", S3StoreConfig(S3Options(region="us-east-1")), "c")
    )
    return [RepositoryConfig(), full]


def yaml_configs() -> list[bytes]:
    made = [encode_config_yaml(encode_config(each)) for each in configs()]
    by_hand = [
        b"virtual_chunk_containers:\n- name: s3\n  prefix: s3\n  object_store: S3\n  region: us\n",
        b'a: !!int "3"\nb: !!float ".5"\nc: !!bool "yes"\nd: !!timestamp "2001-01-01"\n',
        b"a: !!set {x, y}\nb: !!omap [x: 1]\nc: !!pairs [x: 1]\nd: !!binary aGk=\n",
    ]
    return [*made, *by_hand, *of_folders("config.yaml")]


def flexbuffers() -> list[bytes]:
    values: list[Json] = [
        None,
        [1, -1, 2**63, 1.5, True, None, "text"],
        {"a": {"b": [{}, [], ""]}, "c": "x" * 300, "d": [2**40, 3]},
        *(encode_config(each) for each in configs()),
    ]
    return [encode_flexbuffer(value) for value in values]
