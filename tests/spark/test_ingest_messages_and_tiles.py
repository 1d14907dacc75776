"""Virtual ingest of GRIB and TIFF: messages, strips and tiles as chunks; ecCodes' and tifffile's
values.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import eccodes
import numpy as np
import numpy.typing as npt
import pytest
import tifffile
import xarray as xr
import zstandard
from pyspark.sql import SparkSession

from frazil.api import Repository
from frazil.errors import FormatError, InvalidInputError
from frazil.format.chunk_refs import RefKind
from frazil.paths import NodePath
from frazil.spark.ingestion import ingest_layout as storage
from frazil.spark.ingestion.ingest import ingest
from frazil.spark.sources import Source
from frazil.spark.sources.source_reader import source_chunks
from frazil.spark.sources.tiff_files import TIFF
from tests.sources.test_grib import message, messages_in
from tests.spark.test_ingest import stored, tip
from tests.spark.test_ingest_virtual import repository

pytestmark = pytest.mark.spark

Image = npt.NDArray[Any]
GRADIENT = np.arange(64 * 48, dtype="u2").reshape(64, 48)
COLOURS = np.random.default_rng(6).integers(0, 255, (32, 40, 3), "u1")


@pytest.fixture
def nothing_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays would be copied where they cannot be virtual."""
    monkeypatch.setattr(storage, "COPIED_BYTES", 100)


def locations(repo: Repository, path: str) -> set[str | None]:
    found = repo.readonly_session("main").engine.chunk_refs(NodePath(path))
    return {refs.location.text(row) for refs in found for row in range(len(refs))}


# ---- GRIB ----------------------------------------------------------------------------------------


def at_level(data: bytes, level: int, date: int) -> bytes:
    """Other values at each level and date."""
    handle = eccodes.codes_new_from_message(data)
    try:
        eccodes.codes_set(handle, "typeOfLevel", "isobaricInhPa")
        eccodes.codes_set(handle, "level", level)
        eccodes.codes_set(handle, "dataDate", date)
        eccodes.codes_set_values(handle, eccodes.codes_get_values(handle) + level + date % 100)
        made: bytes = eccodes.codes_get_message(handle)
        return made
    finally:
        eccodes.codes_release(handle)


@pytest.mark.usefixtures("nothing_copied")
def test_each_message_is_a_chunk(spark: SparkSession, tmp_path: Path) -> None:
    for step in (12, 0, 6):
        (tmp_path / f"{step:02d}.grib2").write_bytes(message(step, missing=(3, 11)))
    repo = repository(tmp_path, split=1)

    result = ingest(spark, tmp_path, repo, concat_dim="step", virtual=True, progress=False)

    assert result.virtual_chunks == 3
    found = stored(repo)
    for number, step in enumerate((0, 6, 12)):
        (theirs,) = messages_in(tmp_path / f"{step:02d}.grib2")
        np.testing.assert_array_equal(found["t2m"][number], theirs.astype("f4"))
    assert np.isnan(found["t2m"]).sum() == 6
    assert len(locations(repo, "/t2m")) == 3
    np.testing.assert_array_equal(found["latitude"], [60, 59, 58, 57])


@pytest.mark.usefixtures("nothing_copied")
def test_messages_of_one_file_make_a_grid_of_levels_and_steps(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One of them is missing: there is no chunk, and no value."""
    dates = (20240228, 20240229)
    for date in dates:
        made = [at_level(message(step), level, date) for step in (0, 6) for level in (500, 850)]
        (tmp_path / f"{date}.grib").write_bytes(b"".join(made[:-1]))
    repo = repository(tmp_path)

    ingest(spark, tmp_path, repo, group="v", concat_dim="time", virtual=True, progress=False)
    ingest(spark, tmp_path, repo, group="c", concat_dim="time", progress=False)

    found, copied = stored(repo, "v"), stored(repo, "c")
    xr.testing.assert_equal(found, copied)
    assert np.isnan(found["t"]).sum() == 2 * 24
    want = [
        xr.open_dataset(
            path, engine="cfgrib", backend_kwargs={"indexpath": ""}, decode_timedelta=False
        )["t"].values
        for path in sorted(tmp_path.glob("*.grib"))
    ]
    np.testing.assert_array_equal(found["t"], np.stack(want))


@pytest.mark.usefixtures("nothing_copied")
def test_a_grid_of_grib_files_is_placed_by_two_scalars(spark: SparkSession, tmp_path: Path) -> None:
    for level in (500, 850):
        for date in (20240228, 20240229):
            data = at_level(message(6), level, date)
            (tmp_path / f"{date}-{level}.grib2").write_bytes(data)
    repo = repository(tmp_path)
    dims = ["time", "isobaricInhPa"]

    result = ingest(spark, tmp_path, repo, concat_dim=dims, virtual=True, progress=False)

    assert result.virtual_chunks == 4
    found = stored(repo)["t"]
    assert found.dims == ("time", "isobaricInhPa", "latitude", "longitude")
    for number, level in enumerate(found["isobaricInhPa"].values):
        (theirs,) = messages_in(tmp_path / f"20240229-{int(level)}.grib2")
        np.testing.assert_array_equal(found[1, number], theirs.astype("f4"))


def on_a_cone(step: int) -> bytes:
    """Of a projection: latitudes and longitudes are fields, too."""
    handle = eccodes.codes_grib_new_from_samples("GRIB2")
    try:
        eccodes.codes_set(handle, "gridType", "lambert")
        for key, value in {"Nx": 6, "Ny": 4, "DxInMetres": 9000, "DyInMetres": 9000}.items():
            eccodes.codes_set(handle, key, value)
        for key in ("LaDInDegrees", "Latin1InDegrees", "Latin2InDegrees"):
            eccodes.codes_set(handle, key, 50.0)
        eccodes.codes_set(handle, "LoVInDegrees", 8.0)
        eccodes.codes_set(handle, "latitudeOfFirstGridPointInDegrees", 48.0)
        eccodes.codes_set(handle, "longitudeOfFirstGridPointInDegrees", 5.0)
        eccodes.codes_set(handle, "stepRange", str(step))
        eccodes.codes_set(handle, "shortName", "2t")
        eccodes.codes_set_values(handle, 280.0 + step + np.arange(24.0))
        made: bytes = eccodes.codes_get_message(handle)
        return made
    finally:
        eccodes.codes_release(handle)


@pytest.mark.usefixtures("nothing_copied")
def test_latitudes_of_a_projection_are_read_from_a_message(
    spark: SparkSession, tmp_path: Path
) -> None:
    for step in (0, 6):
        (tmp_path / f"{step}.grib2").write_bytes(on_a_cone(step))
    repo = repository(tmp_path)

    options: dict[str, Any] = {"concat_dim": "step", "progress": False}
    result = ingest(spark, tmp_path, repo, group="v", virtual=True, **options)
    ingest(spark, tmp_path, repo, group="c", **options)

    assert result.virtual_chunks == 2 + 1 + 1
    found = stored(repo, "v")
    xr.testing.assert_equal(found, stored(repo, "c"))
    assert found["latitude"].dims == ("y", "x")
    assert 48 <= float(found["latitude"].min()) < float(found["latitude"].max()) < 49


@pytest.mark.usefixtures("nothing_copied")
def test_later_messages_are_appended(spark: SparkSession, tmp_path: Path) -> None:
    for step in (0, 6, 12):
        (tmp_path / f"{step:02d}.grib2").write_bytes(message(step))
    repo = repository(tmp_path)
    options: dict[str, Any] = {"concat_dim": "step", "virtual": True, "progress": False}

    later = [tmp_path / "06.grib2", tmp_path / "12.grib2"]
    ingest(spark, tmp_path / "00.grib2", repo, **options)
    with pytest.raises(InvalidInputError, match="'t2m' consists of GRIB messages"):
        ingest(spark, later, repo, concat_dim="step", mode="append", progress=False)

    result = ingest(spark, later, repo, mode="append", **options)

    assert result.virtual_chunks == 2
    want = [messages_in(tmp_path / f"{step:02d}.grib2")[0] for step in (0, 6, 12)]
    np.testing.assert_array_equal(stored(repo)["t2m"], np.stack(want).astype("f4"))


@pytest.mark.usefixtures("nothing_copied")
def test_damaged_grib_files_are_skipped_and_told(spark: SparkSession, tmp_path: Path) -> None:
    for step in (0, 6):
        (tmp_path / f"{step:02d}.grib2").write_bytes(message(step))
    (tmp_path / "12.grib2").write_bytes(message(12)[:70])
    (tmp_path / "18.grib2").write_bytes(b"rubbish")
    repo = repository(tmp_path)
    options: dict[str, Any] = {"concat_dim": "step", "virtual": True, "progress": False}

    result = ingest(spark, tmp_path, repo, on_error="skip", **options)

    assert [Path(one.path).name for one in result.skipped] == ["12.grib2", "18.grib2"]
    assert result.virtual_chunks == 2
    assert stored(repo)["t2m"].sizes["step"] == 2


# ---- TIFF ----------------------------------------------------------------------------------------


def encoded_tiles(image: Image, tile: tuple[int, int], encode: Any) -> Iterator[bytes]:
    rows, columns = (-(-have // want) for have, want in zip(image.shape, tile, strict=True))
    padding = [(0, n * t - s) for n, t, s in zip((rows, columns), tile, image.shape, strict=True)]
    padded = np.pad(image, padding)
    for row in range(rows):
        for column in range(columns):
            part = padded[row * tile[0] :, column * tile[1] :][: tile[0], : tile[1]]
            yield encode(np.ascontiguousarray(part).tobytes())


LAYOUTS: dict[str, tuple[Image, dict[str, Any], int]] = {
    "one piece": (GRADIENT, {}, 1),
    "raw strips": (GRADIENT, {"rowsperstrip": 15}, 1),  # lie in one piece
    "tiles with edges": (GRADIENT, {"tile": (32, 32)}, 4),
    "deflated strips": (GRADIENT, {"rowsperstrip": 16, "compression": "zlib"}, 4),
    "deflated tiles": (GRADIENT, {"tile": (16, 16), "compression": "zlib"}, 12),
    "big endian": (GRADIENT, {"byteorder": ">", "tile": (16, 16)}, 12),
    "floats": (GRADIENT.astype("f4") / 7, {"tile": (16, 16), "compression": "zlib"}, 12),
    "colours": (COLOURS, {"tile": (16, 16), "photometric": "rgb"}, 6),
    "planes": (
        np.moveaxis(COLOURS, 2, 0),
        {"tile": (16, 16), "photometric": "rgb", "planarconfig": "separate", "compression": "zlib"},
        18,
    ),
    "stack": (np.stack([GRADIENT, GRADIENT + 1]), {"imagej": True}, 1),
    "pages": (
        np.stack([GRADIENT, GRADIENT + 1, GRADIENT + 2]),
        {"photometric": "minisblack", "tile": (32, 48), "compression": "zlib"},
        6,
    ),
    "big file": (GRADIENT, {"bigtiff": True, "tile": (32, 16)}, 6),
}


@pytest.mark.usefixtures("nothing_copied")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_virtual_image_is_what_tifffile_reads(
    spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    values, options, chunks = LAYOUTS[layout]
    file = tmp_path / "image.tif"
    tifffile.imwrite(file, values, **options)
    repo = repository(tmp_path)

    result = ingest(spark, file, repo, virtual=True, progress=False)

    np.testing.assert_array_equal(stored(repo)["band_data"], tifffile.imread(file))
    assert result.virtual_chunks == chunks


@pytest.mark.usefixtures("nothing_copied")
def test_images_follow_one_another_in_time(spark: SparkSession, tmp_path: Path) -> None:
    images = np.stack([GRADIENT + number for number in range(3)])
    for number, image in enumerate(images):
        tifffile.imwrite(
            tmp_path / f"{number}.tif",
            image,
            tile=(32, 32),
            compression="zlib",
            extratags=[
                (33550, "d", 3, (0.5, 0.25, 0.0), True),
                (33922, "d", 6, (0.0, 0.0, 0.0, 10.0, 50.0, 0.0), True),
                (42113, "s", 0, "7", True),
            ],
        )
    repo = repository(tmp_path)
    options: dict[str, Any] = {"concat_dim": "time", "virtual": True, "progress": False}

    ingest(spark, [tmp_path / "0.tif", tmp_path / "1.tif"], repo, **options)
    result = ingest(spark, tmp_path / "2.tif", repo, mode="append", **options)

    assert result.virtual_chunks == 4
    found = stored(repo)
    np.testing.assert_array_equal(found["band_data"].fillna(7), images)
    assert found["x"].values[:2].tolist() == [10.25, 10.75]


@pytest.mark.usefixtures("nothing_copied")
def test_raw_images_are_cut_into_chunks_as_asked(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        tifffile.imwrite(tmp_path / f"{number}.tif", GRADIENT + number)
    repo = repository(tmp_path)

    result = ingest(
        spark, tmp_path, repo, concat_dim="time", chunks={"y": 16}, virtual=True, progress=False
    )

    assert result.virtual_chunks == 8
    np.testing.assert_array_equal(stored(repo)["band_data"], [GRADIENT, GRADIENT + 1])


@pytest.mark.usefixtures("nothing_copied")
@pytest.mark.parametrize("shape", [(64, 48), (3, 32, 40)], ids=["plain", "planes"])
def test_a_last_strip_that_is_short_is_stored_and_the_others_are_not(
    spark: SparkSession, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    images = np.random.default_rng(4).normal(9, 2, (2, *shape)).astype("f4")
    images[:, ..., -1, 3] = np.nan
    for number, image in enumerate(images):
        tifffile.imwrite(
            tmp_path / f"{number}.tif",
            image,
            rowsperstrip=15,
            compression="zlib",
            photometric="rgb" if len(shape) == 3 else None,
            planarconfig="separate" if len(shape) == 3 else None,
            extratags=[(42113, "s", 0, "nan", True)],
        )
    repo = repository(tmp_path, split=2)

    ingest(spark, tmp_path, repo, concat_dim="time", virtual=True, progress=False)

    np.testing.assert_array_equal(stored(repo)["band_data"], images)
    session = repo.readonly_session("main").engine
    refs = list(session.chunk_refs(NodePath("/band_data")))
    kinds = np.concatenate([each.kind for each in refs])
    rows = np.concatenate([each.index for each in refs])[:, -2]
    assert ((kinds == RefKind.NATIVE) == (rows == shape[-2] // 15)).all()
    assert (kinds == RefKind.VIRTUAL).sum() == 2 * (4 if len(shape) == 2 else 6)


@pytest.mark.usefixtures("nothing_copied")
def test_tiles_compressed_by_zstd(spark: SparkSession, tmp_path: Path) -> None:
    """tifffile writes what it is given, and could not decode it itself."""
    tile = (32, 32)
    tifffile.imwrite(
        tmp_path / "image.tif",
        encoded_tiles(GRADIENT, tile, zstandard.compress),
        shape=GRADIENT.shape,
        dtype=GRADIENT.dtype,
        tile=tile,
        compression="zstd",
        byteorder="<",
    )
    repo = repository(tmp_path)

    ingest(spark, tmp_path / "image.tif", repo, virtual=True, progress=False)

    np.testing.assert_array_equal(stored(repo)["band_data"], GRADIENT)


@pytest.mark.usefixtures("nothing_copied")
def test_tiles_that_were_never_written_read_as_no_data(spark: SparkSession, tmp_path: Path) -> None:
    tile = (32, 48)
    parts = list(encoded_tiles(GRADIENT, tile, zlib.compress))
    tifffile.imwrite(
        tmp_path / "image.tif",
        iter([parts[0], b""]),
        shape=GRADIENT.shape,
        dtype=GRADIENT.dtype,
        tile=tile,
        compression="zlib",
        byteorder="<",
        extratags=[(42113, "s", 0, "9", True)],
    )
    repo = repository(tmp_path)

    result = ingest(spark, tmp_path / "image.tif", repo, virtual=True, progress=False)

    assert result.virtual_chunks == 1
    found = stored(repo)["band_data"].fillna(9)
    np.testing.assert_array_equal(found[:32], GRADIENT[:32])
    assert (found[32:] == 9).all()


BAD: dict[str, tuple[Image, dict[str, Any], str]] = {
    "predictor": (
        GRADIENT,
        {"tile": (16, 16), "compression": "zlib", "predictor": True},
        "predictor 2",
    ),
    "bits": (GRADIENT > 1000, {}, "values of 1 bits"),
}


@pytest.mark.usefixtures("nothing_copied")
@pytest.mark.parametrize("problem", BAD)
def test_what_no_codec_undoes_is_refused(spark: SparkSession, tmp_path: Path, problem: str) -> None:
    values, options, words = BAD[problem]
    tifffile.imwrite(tmp_path / "b.tif", values, **options)
    repo = repository(tmp_path)
    before = tip(repo)
    asked: dict[str, Any] = {"concat_dim": "time", "virtual": True, "progress": False}

    with pytest.raises(InvalidInputError, match=rf"b\.tif.*cannot be virtual.*{words}"):
        ingest(spark, tmp_path / "b.tif", repo, **asked)
    assert tip(repo) == before


@pytest.mark.usefixtures("nothing_copied")
def test_images_that_cannot_be_virtual_are_skipped_and_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, predictor in enumerate([False, True, False]):
        file = tmp_path / f"{number}.tif"
        tifffile.imwrite(file, GRADIENT, tile=(16, 16), compression="zlib", predictor=predictor)
    repo = repository(tmp_path)

    result = ingest(
        spark, tmp_path, repo, concat_dim="time", virtual=True, on_error="skip", progress=False
    )

    (gone,) = result.skipped
    assert gone.path.endswith("1.tif")
    assert "predictor" in gone.reason
    assert stored(repo)["band_data"].shape == (2, 64, 48)


@pytest.mark.usefixtures("nothing_copied")
def test_a_compression_that_zarr_has_no_codec_for_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "image.tif"
    tifffile.imwrite(file, GRADIENT, tile=(32, 32), compression="zlib")
    with tifffile.TiffFile(file, mode="r+") as image:  # tifffile alone cannot write one
        image.pages.first.tags["Compression"].overwrite(5)
    with pytest.raises(InvalidInputError, match=r"image\.tif.*compression 5 \(LZW\)"):
        ingest(spark, tmp_path / "image.tif", repository(tmp_path), virtual=True, progress=False)


# ---- without Spark -------------------------------------------------------------------------------


def test_a_file_that_changed_since_it_was_described_is_damaged(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", GRADIENT, tile=(16, 16))
    source = Source(TIFF, str(tmp_path / "a.tif"))
    with pytest.raises(FormatError, match=r"a\.tif: variable 'band_data' is not as it was"):
        source_chunks(source, "band_data", (1, 32, 32), group=None, stacked=1)
