"""Sets that kerchunk makes, imported: what frazil reads is what zarr reads through fsspec."""

import gc
import json
from pathlib import Path
from typing import Any

import fsspec
import icechunk
import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from fsspec.implementations.reference import LazyReferenceMapper
from icechunk.credentials import LocalFileSystemAccess
from kerchunk.combine import MultiZarrToZarr

import frazil
from frazil.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    ReadOnlyError,
)
from frazil.references import import_kerchunk
from tests.sources.made import hdf5_references
from tests.sources.places import Place

# fsspec's store warns when zarr asks it to be asynchronous
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
DAYS = 3


def files_of_days(folder: Path) -> list[Path]:
    made = []
    for day in range(DAYS):
        values = np.random.default_rng(day).normal(280, 10, (4, 5, 6))
        values[0, day, day] = np.nan
        data = xr.Dataset(
            {"t": (("time", "y", "x"), values.astype("f4"), {"units": "K"})},
            coords={"time": 4.0 * day + np.arange(4), "x": np.arange(6), "y": np.arange(5.0)},
            attrs={"title": "days"},
        )
        file = folder / f"day{day}.nc"
        encoding = {
            "t": {"chunksizes": (2, 5, 3), "zlib": True, "shuffle": True, "_FillValue": -99.0}
        }
        data.to_netcdf(file, engine="h5netcdf", encoding=encoding)
        made.append(file)
    return made


def combined(folder: Path, *, inline_threshold: int = 50) -> dict[str, Any]:
    """All days along time, as kerchunk combines them."""
    sets = [
        hdf5_references(file, str(file), inline_threshold=inline_threshold)
        for file in files_of_days(folder)
    ]
    gc.disable()
    try:
        maker = MultiZarrToZarr(
            sets, concat_dims=["time"], identical_dims=["x", "y"], inline_threshold=inline_threshold
        )
        found: dict[str, Any] = maker.translate()
        return found
    finally:
        gc.enable()


def through_fsspec(references: Any) -> xr.Dataset:
    files = fsspec.filesystem("reference", fo=references)
    data: xr.Dataset = xr.open_zarr(files.get_mapper(""), consolidated=False, zarr_format=2)
    return data.load()


def through_frazil(session: frazil.Session, group: str = "") -> xr.Dataset:
    data: xr.Dataset = xr.open_zarr(session.store, group=group, consolidated=False)
    return data.load()


@pytest.fixture
def session(disk: Place, tmp_path: Path) -> frazil.Session:
    return disk.repository(tmp_path / "repo").writable_session("main")


def test_a_combined_set_reads_as_through_fsspec(
    session: frazil.Session, folder: Path, tmp_path: Path
) -> None:
    references = combined(folder)
    written = tmp_path / "combined.json"
    written.write_text(json.dumps(references))
    done = import_kerchunk(session, written)
    ours, theirs = through_frazil(session), through_fsspec(references)
    assert ours.sizes["time"] == 4 * DAYS
    assert np.isnan(ours["t"].values).sum() == DAYS
    xr.testing.assert_identical(ours, theirs)
    assert (done.virtual_chunks, done.files) == (DAYS * 2 * 2, DAYS)
    assert done.inline_chunks == 3


def in_parquet(
    references: dict[str, Any],
    directory: Path,
    *,
    record_size: int = 5,
    categorical_threshold: int = 1,
) -> Path:
    """As fsspec writes a set."""
    directory.mkdir()
    metadata = {"metadata": {}, "record_size": record_size}
    (directory / ".zmetadata").write_text(json.dumps(metadata))
    out = LazyReferenceMapper(
        str(directory),
        fs=fsspec.filesystem("file"),
        categorical_threshold=categorical_threshold,
        engine="pyarrow",
    )
    for key in sorted(references, key=lambda key: ".z" not in key):  # metadata first
        out[key] = references[key]
    out.flush()
    return directory


@pytest.mark.parametrize("categorical_threshold", [1, 1000])
@pytest.mark.parametrize("record_size", [5, 1000])
def test_a_set_in_parquet_reads_as_the_one_in_json(
    session: frazil.Session,
    folder: Path,
    tmp_path: Path,
    record_size: int,
    categorical_threshold: int,
) -> None:
    references = combined(folder)["refs"]
    directory = in_parquet(
        references,
        tmp_path / "combined.parq",
        record_size=record_size,
        categorical_threshold=categorical_threshold,
    )
    from_parquet = import_kerchunk(session, directory, group="parquet")
    from_json = import_kerchunk(session, {"version": 1, "refs": references}, group="json")
    assert from_parquet == from_json
    xr.testing.assert_identical(through_frazil(session, "parquet"), through_frazil(session, "json"))
    xr.testing.assert_identical(through_frazil(session, "parquet"), through_fsspec(references))


def test_sets_are_read_from_where_the_files_are(place: Place, tmp_path: Path) -> None:
    references = combined(place.folder)
    for file in place.folder.glob("*.nc"):
        place.publish(file)
    moved = json.loads(json.dumps(references).replace(f"{place.folder}/", place.prefix))
    written = place.folder / "set.json"
    written.write_text(json.dumps(moved))
    in_parquet(moved["refs"], place.folder / "set.parq")
    session = place.repository(tmp_path / "repo").writable_session("main")
    from_json = import_kerchunk(session, place.publish(written), group="json")
    from_parquet = import_kerchunk(
        session, place.publish_tree(place.folder / "set.parq"), group="parquet"
    )
    assert from_json == from_parquet
    expected = through_fsspec(references)
    xr.testing.assert_identical(through_frazil(session, "json"), expected)
    xr.testing.assert_identical(through_frazil(session, "parquet"), expected)
    refused(session, f"{place.prefix}none.json", ObjectNotFoundError, r"none\.json")


def test_a_set_that_may_not_be_read_is_refused(session: frazil.Session) -> None:
    url = "https://example.org/refs.json"  # never asked
    refused(session, url, InvalidInputError, "no virtual chunk container")


ENCODED_KEYS: dict[str, dict[str, Any]] = {
    "default": {"name": "default", "separator": "/"},
    "dots": {"name": "default", "separator": "."},
    "version 2": {"name": "v2", "separator": "."},
    "version 2 slashes": {"name": "v2", "separator": "/"},
}


@pytest.mark.parametrize("encoding", ENCODED_KEYS)
def test_arrays_of_version_3_stay_as_they_are(
    session: frazil.Session, folder: Path, encoding: str
) -> None:
    store = zarr.storage.MemoryStore()
    group = zarr.create_group(store, attributes={"title": "three"}, zarr_format=3)
    made: Any = group.create_array(
        "g/a", shape=(5, 3, 4), chunks=(2, 2, 4), dtype="i4", dimension_names=("z", "y", "x"),
        chunk_key_encoding=ENCODED_KEYS[encoding], attributes={"units": "m"},
    )  # fmt: skip
    made[...] = VALUES
    refs: dict[str, Any] = {}
    for number, (key, value) in enumerate(store._store_dict.items()):
        file = folder / f"{number}.bin"
        file.write_bytes(value.to_bytes())
        named = key.endswith("zarr.json")
        refs[key] = value.to_bytes().decode() if named else [str(file), 0, len(value)]
    done = import_kerchunk(session, refs)
    assert (done.arrays, done.virtual_chunks) == (1, 6)
    found = zarr.open_group(session.store, mode="r")
    ours = found["g/a"]
    assert isinstance(ours, zarr.Array)
    np.testing.assert_array_equal(ours[...], VALUES)
    assert (found.attrs["title"], ours.attrs["units"]) == ("three", "m")
    assert ours.metadata.to_dict()["dimension_names"] == ("z", "y", "x")


def test_whole_files_are_measured(place: Place, tmp_path: Path) -> None:
    values = np.arange(12, dtype="<i4").reshape(3, 4)
    refs: dict[str, Any] = {
        ".zgroup": {"zarr_format": 2},
        "a/.zarray": {
            "shape": [3, 4],
            "chunks": [1, 4],
            "dtype": "<i4",
            "fill_value": 0,
            "order": "C",
            "filters": None,
            "compressor": None,
            "zarr_format": 2,
        },
    }
    for row in range(3):
        file = place.folder / f"row {row} %.bin"
        file.write_bytes(values[row].tobytes())
        refs[f"a/{row}.0"] = [place.publish(file).replace("%", "%25").replace(" ", "%20")]
        if place.prefix.startswith("file"):  # as fsspec writes them: not encoded
            refs[f"a/{row}.0"] = [str(file)]
        elif place.s3 is not None:
            refs[f"a/{row}.0"] = [place.prefix + file.name]
    session = place.repository(tmp_path / "repo").writable_session("main")
    done = import_kerchunk(session, refs)
    assert done.virtual_bytes == values.nbytes
    np.testing.assert_array_equal(zarr.open_array(session.store, path="a", mode="r"), values)


def array_set(values: np.ndarray[Any, Any], file: Path, **metadata: Any) -> dict[str, Any]:
    """One chunk, stored as zarr version 2 would with these filters and this compressor."""
    if "filters" in metadata:
        metadata["filters"] = [numcodecs.get_codec(dict(one)) for one in metadata["filters"]]
    store = zarr.storage.MemoryStore()
    made: Any = zarr.create_array(
        store, data=values, chunks=values.shape, zarr_format=2, name="a", **metadata
    )
    del made
    items = {key: value.to_bytes() for key, value in store._store_dict.items()}
    (chunk_key,) = [key for key in items if ".z" not in key]
    file.write_bytes(b"before" + items[chunk_key] + b"after")
    refs: dict[str, Any] = {key: text.decode() for key, text in items.items() if ".z" in key}
    refs[chunk_key] = [str(file), 6, len(items[chunk_key])]
    return refs


VALUES = np.arange(60, dtype="i4").reshape(5, 3, 4)
ENCODINGS: dict[str, dict[str, Any]] = {
    "nothing": {"compressors": None},
    "fortran": {"compressors": None, "order": "F"},
    "zlib": {"compressors": {"id": "zlib", "level": 3}},
    "gzip": {"compressors": {"id": "gzip", "level": 3}},
    "zstd": {"compressors": {"id": "zstd", "level": 3}},
    "lz4": {"compressors": {"id": "lz4"}},
    "bz2": {"compressors": {"id": "bz2", "level": 3}},
    "blosc": {"compressors": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}},
    "blosc bits": {"compressors": {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2}},
    "blosc automatic": {"compressors": {"id": "blosc", "cname": "lz4", "shuffle": -1}},
    "delta": {
        "filters": [{"id": "delta", "dtype": "<i4", "astype": "<i4"}],
        "compressors": {"id": "zlib"},
    },
    "fortran shuffled": {
        "order": "F",
        "filters": [{"id": "shuffle", "elementsize": 4}],
        "compressors": {"id": "zlib"},
    },
    "packed": {
        "filters": [
            {"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": "<i4", "astype": "<i2"}
        ],
        "compressors": {"id": "zstd"},
    },
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_codecs_of_version_2_become_codecs_of_version_3(
    session: frazil.Session, folder: Path, encoding: str
) -> None:
    refs = array_set(VALUES, folder / "chunk", **ENCODINGS[encoding])
    import_kerchunk(session, refs)
    ours = zarr.open_array(session.store, path="a", mode="r")
    np.testing.assert_array_equal(ours[...], VALUES)


@pytest.mark.parametrize(
    "dtype", ["|b1", "|i1", "|u1", "<i2", ">i4", "<u8", "<f2", "<f4", ">f8", "<c8", ">c16"]
)
@pytest.mark.parametrize("missing", [False, True])
def test_numbers_keep_their_type_and_fill_value(
    session: frazil.Session, folder: Path, dtype: str, *, missing: bool
) -> None:
    values = np.arange(6).astype(dtype)
    refs = array_set(values, folder / "chunk", compressors=None, fill_value=1)
    if missing:
        refs = {key: value for key, value in refs.items() if ".z" in key}
    import_kerchunk(session, refs)
    ours = zarr.open_array(session.store, path="a", mode="r")
    np.testing.assert_array_equal(ours[...], np.ones(6, dtype) if missing else values)
    assert ours.dtype.newbyteorder("=") == values.dtype.newbyteorder("=")


def test_times_and_text_are_read_as_zarr_reads_them(session: frazil.Session, folder: Path) -> None:
    times = np.arange("2024-02-27", "2024-03-02", dtype="datetime64[D]").astype("M8[ns]")
    text = np.array(["eins", "zwölf", ""], dtype=np.dtypes.StringDType())
    import_kerchunk(session, array_set(times, folder / "times", compressors=None), group="times")
    import_kerchunk(session, array_set(text, folder / "text"), group="text")
    np.testing.assert_array_equal(zarr.open_array(session.store, path="times/a", mode="r"), times)
    ours = zarr.open_array(session.store, path="text/a", mode="r")[...]
    assert np.asarray(ours).tolist() == text.tolist()


def test_large_inline_chunks_become_objects(disk: Place, tmp_path: Path) -> None:
    refs = array_set(np.arange(5000), disk.folder / "chunk", compressors=None)
    refs["a/0"] = np.arange(5000).tobytes()
    repo = disk.repository(tmp_path / "repo")
    session = repo.writable_session("main")
    done = import_kerchunk(session, refs)
    session.commit("inline")
    reader = repo.readonly_session("main")
    assert done.inline_chunks == 1
    assert reader.chunk_type("/a", [0]) == frazil.ChunkType.native
    np.testing.assert_array_equal(
        zarr.open_array(reader.store, path="a", mode="r"), np.arange(5000)
    )


def test_groups_that_are_there_keep_what_they_have(session: frazil.Session, folder: Path) -> None:
    root = zarr.create_group(session.store, attributes={"mine": 1, "title": "old"})
    root.create_array("b", shape=(2,), dtype="i4")
    refs = array_set(VALUES, folder / "chunk", compressors=None)
    refs[".zattrs"] = {"title": "new"}
    import_kerchunk(session, refs)
    group = zarr.open_group(session.store, mode="r")
    assert dict(group.attrs) == {"mine": 1, "title": "new"}
    assert sorted(group.array_keys()) == ["a", "b"]


def test_the_reference_reads_what_was_imported(disk: Place, tmp_path: Path) -> None:
    references = combined(disk.folder)
    repo = disk.repository(tmp_path / "repo")
    session = repo.writable_session("main")
    import_kerchunk(session, references)
    session.commit("import")
    theirs = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "repo")),
        authorize_virtual_chunk_access={disk.prefix: LocalFileSystemAccess},
    )
    store = theirs.readonly_session("main").store
    expected = through_frazil(repo.readonly_session("main"))
    xr.testing.assert_identical(xr.open_zarr(store, consolidated=False).load(), expected)


# What is refused; nothing is written then.


def refused(session: frazil.Session, source: Any, error: type[Exception], match: str) -> None:
    before = session.status()
    with pytest.raises(error, match=match):
        import_kerchunk(session, source)
    assert session.status() == before


def test_an_array_is_not_overwritten(session: frazil.Session, folder: Path) -> None:
    refs = array_set(VALUES, folder / "chunk", compressors=None)
    import_kerchunk(session, refs)
    refused(session, refs, AlreadyExistsError, "/a")


def test_a_file_outside_of_all_containers_is_named(session: frazil.Session, tmp_path: Path) -> None:
    refs = array_set(VALUES, tmp_path / "elsewhere.bin", compressors=None)
    refused(session, refs, InvalidInputError, r"file://.*elsewhere\.bin")
    import_kerchunk(session, refs, validate_containers=False)
    assert session.all_virtual_chunk_locations() == [f"file://{tmp_path}/elsewhere.bin"]


def test_a_relative_path_needs_a_root(session: frazil.Session, folder: Path) -> None:
    refs = array_set(VALUES, folder / "chunk", compressors=None)
    refs["a/0.0.0"][0] = "chunk"
    refused(session, refs, FormatError, "'chunk' is relative")
    import_kerchunk(session, refs, root=str(folder))
    np.testing.assert_array_equal(zarr.open_array(session.store, path="a", mode="r"), VALUES)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"dtype": "<q9"}, "a/.zarray.*q9"),
        ({"fill_value": "much"}, "a/.zarray.*much"),
        ({"compressor": {"id": "unheard"}}, "a/.zarray.*unheard"),
        ({"compressor": "zlib"}, "a/.zarray.*compressor"),
        ({"filters": [{"id": "zlib"}, {"id": "delta", "dtype": "<i4"}]}, "a/.zarray.*order"),
        ({"filters": [{"level": 1}]}, "a/.zarray.*id"),
    ],
)
def test_metadata_that_version_3_cannot_say_is_named(
    session: frazil.Session, folder: Path, change: dict[str, Any], match: str
) -> None:
    refs = array_set(VALUES, folder / "chunk", compressors=None)
    refs["a/.zarray"] = {**json.loads(refs["a/.zarray"]), **change}
    refused(session, refs, FormatError, match)


def test_an_array_at_the_root_needs_a_group(session: frazil.Session, folder: Path) -> None:
    refs = array_set(VALUES, folder / "chunk", compressors=None)
    refs = {key.removeprefix("a/"): value for key, value in refs.items() if key.startswith("a/")}
    refused(session, refs, InvalidInputError, "group")


def test_a_set_that_is_not_there_is_named(session: frazil.Session, tmp_path: Path) -> None:
    refused(session, tmp_path / "none.json", ObjectNotFoundError, r"none\.json")
    (tmp_path / "empty").mkdir()
    refused(session, tmp_path / "empty", FormatError, r"empty: .*\.zmetadata")


def test_a_parquet_file_that_is_damaged_is_named(
    session: frazil.Session, folder: Path, tmp_path: Path
) -> None:
    refs = array_set(VALUES, folder / "chunk", compressors=None)
    metadata = {key: json.loads(text) for key, text in refs.items() if ".z" in key}
    target = tmp_path / "set"
    (target / "a").mkdir(parents=True)
    (target / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": 10}))
    (target / "a" / "refs.0.parq").write_bytes(b"PAR1 not")
    refused(session, target, FormatError, r"a/refs\.0\.parq")


@pytest.mark.parametrize(
    ("key", "change", "record_size"),
    [
        ("../../a/.zarray", {}, 10),
        ("a/.zarray", {"shape": [10**9, 10**9, 4]}, 10),
        ("a/.zarray", {"shape": [10**18, 10**18, 4]}, 10**9),
        ("a/.zarray", {}, 0),
        ("a/.zarray", {}, "10"),
    ],
)
def test_a_hostile_parquet_set_is_refused_at_once(
    session: frazil.Session, tmp_path: Path, key: str, change: dict[str, Any], record_size: Any
) -> None:
    refs = array_set(VALUES, tmp_path / "chunk", compressors=None)
    metadata = {key: {**json.loads(refs["a/.zarray"]), **change}}
    target = tmp_path / "set"
    target.mkdir()
    (target / ".zmetadata").write_text(
        json.dumps({"metadata": metadata, "record_size": record_size})
    )
    refused(session, target, FormatError, r"set/\.zmetadata")


def test_a_read_only_session_is_refused(disk: Place, folder: Path, tmp_path: Path) -> None:
    reader = disk.repository(tmp_path / "repo").readonly_session("main")
    refs = array_set(VALUES, folder / "chunk", compressors=None)
    with pytest.raises(ReadOnlyError):
        import_kerchunk(reader, refs)
