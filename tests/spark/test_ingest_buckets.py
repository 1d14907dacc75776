"""Sources in buckets and on web servers: copied or referred to, and nobody sees how."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import xarray as xr
from pyspark.sql import SparkSession

import frazil
from frazil.errors import InvalidInputError, ObjectNotFoundError, StorageError
from frazil.spark.ingestion.ingest import ingest
from frazil.spark.sources import Source, find_sources
from frazil.spark.sources.hdf5_files import NETCDF
from frazil.spark.sources.source_files import BLOCK_BYTES, RemoteFile
from frazil.spark.sources.source_search import _matches
from frazil.spark.sources.source_types import Remote
from frazil.spark.sources.tiff_files import TIFF
from frazil.spark.sources.zarr_files import ZARR
from tests.servers.azure import AzureServer
from tests.servers.http_files import HttpServer
from tests.servers.s3 import S3Server
from tests.sources.places import Place, in_a_bucket, on_the_web
from tests.sources.test_grib import message
from tests.spark.netcdf3_files import Made, write_netcdf3
from tests.spark.test_ingest import concatenated, stored, tip, write_day

VALUES = np.arange(6 * 4 * 5, dtype="f4").reshape(6, 4, 5)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    return made


@pytest.fixture
def bucket(files: Path, s3_server: S3Server) -> Place:
    return in_a_bucket(files, s3_server)


@pytest.fixture
def web(files: Path, http_server: Callable[[Path], HttpServer]) -> Place:
    return on_the_web(files, http_server(files))


def access(server: S3Server) -> dict[str, Any]:
    """What `source_storage` is given."""
    given = server.arguments("")
    return {name: given[name] for name in given if name not in {"bucket", "prefix"}}


def publish(place: Place) -> None:
    for entry in place.folder.iterdir():
        (place.publish_tree if entry.is_dir() else place.publish)(entry)


def part(number: int) -> xr.Dataset:
    times = np.arange(3 * number, 3 * number + 3, dtype="i4")
    return xr.Dataset(
        {"v": (("time", "y", "x"), VALUES[3 * number : 3 * number + 3])},
        coords={"time": times, "y": np.arange(4.0)},
    )


def make_netcdf(folder: Path, number: int) -> None:
    encoding = {"v": {"chunksizes": (3, 2, 5), "zlib": True}}
    part(number).to_netcdf(folder / f"{number}.nc", engine="h5netcdf", encoding=encoding)


def make_netcdf3(folder: Path, number: int) -> None:
    made = part(number)
    variables = {
        "v": Made(("time", "y", "x"), made["v"].values),
        "w": Made(("time",), made["time"].values.astype("i2")),
        "time": Made(("time",), made["time"].values),
        "y": Made(("y",), made["y"].values),
    }
    write_netcdf3(folder / f"{number}.nc", variables, record_dim="time")


def make_zarr(folder: Path, number: int) -> None:
    part(number).to_zarr(
        folder / f"{number}.zarr",
        consolidated=False,
        zarr_format=3,
        encoding={"v": {"chunks": (3, 4, 5)}},
    )


MAKERS = {"nc": make_netcdf, "nc3": make_netcdf3, "zarr": make_zarr}


# ---- with Spark ----------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("virtual", [False, True], ids=["copied", "virtual"])
@pytest.mark.parametrize("kind", MAKERS)
def test_sources_in_a_bucket_are_as_those_on_disk(
    spark: SparkSession,
    s3_server: S3Server,
    bucket: Place,
    tmp_path: Path,
    *,
    kind: str,
    virtual: bool,
) -> None:
    for number in (0, 1):
        MAKERS[kind](bucket.folder, number)
    publish(bucket)
    repo = bucket.repository(tmp_path / "repo")

    result = ingest(
        spark,
        f"{bucket.prefix}*.{'zarr' if kind == 'zarr' else 'nc'}",
        repo,
        concat_dim="time",
        virtual=virtual,
        source_storage=access(s3_server),
        progress=False,
    )

    found = stored(repo)
    np.testing.assert_array_equal(found["v"], VALUES)
    np.testing.assert_array_equal(found["time"], np.arange(6))
    assert result.files == 2
    assert (result.virtual_chunks > 0) == virtual


@pytest.mark.spark
@pytest.mark.parametrize("virtual", [False, True], ids=["copied", "virtual"])
def test_messages_and_images_in_a_bucket(
    spark: SparkSession, s3_server: S3Server, bucket: Place, tmp_path: Path, *, virtual: bool
) -> None:
    images = np.random.default_rng(1).integers(0, 4000, (2, 64, 48)).astype("u2")
    for number in (0, 1):
        (bucket.folder / f"{number}.grib2").write_bytes(message(6 * number))
        tifffile.imwrite(
            bucket.folder / f"{number}.tif", images[number], tile=(32, 32), compression="zlib"
        )
    publish(bucket)
    repo = bucket.repository(tmp_path / "repo")
    options: dict[str, Any] = {"source_storage": access(s3_server), "progress": False}

    ingest(spark, f"{bucket.prefix}*.tif", repo, concat_dim="time", virtual=virtual, **options)
    ingest(
        spark,
        f"{bucket.prefix}?.grib2",
        repo,
        group="grib",
        concat_dim="step",
        virtual=virtual,
        **options,
    )

    np.testing.assert_array_equal(stored(repo)["band_data"], images)
    local = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "local")))
    ingest(spark, bucket.folder / "*.grib2", local, concat_dim="step", progress=False)
    xr.testing.assert_equal(stored(repo, "grib"), stored(local))


@pytest.mark.spark
@pytest.mark.parametrize("virtual", [False, True], ids=["copied", "virtual"])
def test_sources_on_a_web_server(
    spark: SparkSession, web: Place, tmp_path: Path, *, virtual: bool
) -> None:
    paths = [write_day(web.folder, day) for day in range(2)]
    repo = web.repository(tmp_path / "repo")
    urls = [web.prefix + path.name for path in paths]

    result = ingest(spark, urls, repo, concat_dim="time", virtual=virtual, progress=False)

    xr.testing.assert_identical(stored(repo), concatenated(paths))
    assert (result.virtual_chunks > 0) == virtual


@pytest.mark.spark
def test_a_bad_file_in_a_bucket_is_skipped_and_told(
    spark: SparkSession, s3_server: S3Server, bucket: Place, tmp_path: Path
) -> None:
    for number in (0, 1):
        make_netcdf(bucket.folder, number)
    (bucket.folder / "2.nc").write_bytes((bucket.folder / "1.nc").read_bytes()[:1500])
    publish(bucket)
    repo = bucket.repository(tmp_path / "repo")

    result = ingest(
        spark,
        bucket.prefix,
        repo,
        concat_dim="time",
        on_error="skip",
        source_storage=access(s3_server),
        progress=False,
    )

    assert [one.path for one in result.skipped] == [f"{bucket.prefix}2.nc"]
    np.testing.assert_array_equal(stored(repo)["v"], VALUES)


@pytest.mark.spark
def test_nobody_sees_the_secret(
    spark: SparkSession,
    s3_server: S3Server,
    bucket: Place,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for number in range(6):  # as many as executors describe
        (bucket.folder / f"{number}.tif").write_bytes(b"II*\0rubbish")
    make_netcdf(bucket.folder, 0)
    publish(bucket)
    repo = bucket.repository(tmp_path / "repo")
    options: dict[str, Any] = {"source_storage": access(s3_server), "progress": False}

    ingest(spark, f"{bucket.prefix}0.nc", repo, group="good", **options)
    with pytest.raises(frazil.IcechunkError) as bad:
        ingest(spark, f"{bucket.prefix}*.tif", repo, group="bad", concat_dim="t", **options)
    wrong = {**access(s3_server), "secret_access_key": "another-secret-of-mine"}
    before = tip(repo)
    with pytest.raises(StorageError) as refused:
        ingest(spark, f"{bucket.prefix}*.nc", repo, source_storage=wrong, progress=False)

    assert tip(repo) == before
    shown = capfd.readouterr()
    commits = [f"{each.message} {each.metadata}" for each in repo.ancestry(branch="main")]
    texts = [shown.out, shown.err, str(bad.value), repr(bad.value), str(refused.value), *commits]
    texts += [repr(each) for each in find_sources(bucket.prefix, storage=access(s3_server))]
    stored_bytes = b"".join(p.read_bytes() for p in (tmp_path / "repo").rglob("*") if p.is_file())
    for secret in (s3_server.secret_key, "another-secret-of-mine"):
        assert not [text for text in texts if secret in text]
        assert secret.encode() not in stored_bytes


# ---- finding, without Spark ----------------------------------------------------------------------


def test_folders_and_patterns_are_listed(s3_server: S3Server, bucket: Place) -> None:
    inner = bucket.folder / "deep" / "er"
    inner.mkdir(parents=True)
    for folder, number in ((bucket.folder, 0), (bucket.folder / "deep", 0), (inner, 1)):
        make_netcdf(folder, number)
    make_zarr(bucket.folder / "deep", 1)
    (bucket.folder / "notes.txt").write_text("nothing")
    publish(bucket)

    def names(pattern: str) -> list[str]:
        found = find_sources(bucket.prefix + pattern, storage=access(s3_server))
        return [source.path.removeprefix(bucket.prefix) for source in found]

    assert names("") == ["0.nc"]
    assert names("deep/") == names("deep") == ["deep/0.nc", "deep/1.zarr"]
    assert names("*/*.nc") == ["deep/0.nc"]
    assert names("**/*.nc") == ["0.nc", "deep/0.nc", "deep/er/1.nc"]
    assert names("deep/*.zarr") == names("deep/1.zarr") == ["deep/1.zarr"]
    assert names("deep/er/[0-9].nc") == ["deep/er/1.nc"]
    formats = {
        each.format for each in find_sources(bucket.prefix + "deep", storage=access(s3_server))
    }
    assert formats == {NETCDF, ZARR}
    for nothing in ("*.grib2", "missing.nc", "nowhere/"):
        with pytest.raises(ObjectNotFoundError):
            names(nothing)


@pytest.mark.parametrize(
    ("name", "pattern", "matches"),
    [
        ("a/b/c.nc", "a/**/c.nc", True),
        ("a/c.nc", "a/**/c.nc", True),
        ("a/b/c.nc", "a/*.nc", False),
        ("a/b/c.nc", "**", True),
        ("a/b/c.nc", "**/b/**", True),
        ("a/b/c.nc", "**/d/**", False),
        ("a/b", "a/b/**", True),
        ("a/b", "a/b/c", False),
        ("a/b1", "a/b[12]", True),
    ],
)
def test_patterns_match_as_those_of_files_do(name: str, pattern: str, *, matches: bool) -> None:
    assert _matches(name.split("/"), pattern.split("/")) == matches


def test_urls_that_would_show_a_secret_are_refused_without_repeating_it() -> None:
    for url in ("https://me:hush@host/a.nc", "https://host/a.nc?signature=hush"):
        with pytest.raises(InvalidInputError, match="visible to everyone") as refused:
            find_sources(url)
        assert "hush" not in str(refused.value)


def test_a_file_that_is_not_on_the_web_server_is_named(web: Place) -> None:
    with pytest.raises(ObjectNotFoundError, match=r"http://.*/missing\.nc"):
        find_sources(f"{web.prefix}missing.nc")
    with pytest.raises(InvalidInputError, match="web servers show no listings"):
        find_sources(f"{web.prefix}*.nc")
    with pytest.raises(InvalidInputError, match="web servers show no listings"):
        find_sources(f"{web.prefix}a.zarr", source_format=ZARR)


def test_storage_options_for_paths_are_refused(tmp_path: Path) -> None:
    make_netcdf(tmp_path, 0)
    with pytest.raises(InvalidInputError, match="source_storage goes with the URLs"):
        find_sources(tmp_path, storage={"region": "here"})
    with pytest.raises(InvalidInputError, match=r"did you mean 'storage\.region'"):
        find_sources("s3://bucket/a.nc", storage={"regoin": "here"})


# ---- reading, without Spark ----------------------------------------------------------------------


def test_a_remote_file_is_read_as_a_local_one(web: Place) -> None:
    content = os.urandom(5 * BLOCK_BYTES // 2)
    (web.folder / "data").write_bytes(content)
    (source,) = find_sources(f"{web.prefix}data", source_format=NETCDF)
    assert source.remote is not None
    with RemoteFile(source.path, source.remote) as file:
        assert file.read(10) == content[:10]
        assert file.seek(-5, os.SEEK_END) == len(content) - 5
        assert file.read() == content[-5:]
        assert file.read(1) == b""
        file.seek(BLOCK_BYTES - 3)
        assert file.read(6) == content[BLOCK_BYTES - 3 : BLOCK_BYTES + 3]
        file.seek(7)
        assert file.read(2 * BLOCK_BYTES) == content[7 : 7 + 2 * BLOCK_BYTES]
        file.seek(len(content) + 100)
        assert file.read(10) == b""


def test_headers_are_read_in_few_requests(
    files: Path, http_server: Callable[[Path], HttpServer]
) -> None:
    make_netcdf(files, 0)
    server = http_server(files)
    (source,) = find_sources(f"{server.url}/0.nc")
    server.asked.clear()
    assert source.remote is not None
    with RemoteFile(source.path, source.remote) as file:
        for offset in range(0, 4000, 50):
            file.seek(offset)
            file.read(8)
    assert server.count() <= 2


def test_a_file_that_is_opened_again_is_not_read_again_unless_it_changed(
    files: Path, http_server: Callable[[Path], HttpServer]
) -> None:
    (files / "data").write_bytes(b"a" * 1000)
    server = http_server(files)
    (source,) = find_sources(f"{server.url}/data", source_format=NETCDF)
    assert source.remote is not None
    for content in (b"a" * 1000, b"b" * 1000):
        (files / "data").write_bytes(content)
        server.asked.clear()
        for _ in range(3):
            with RemoteFile(source.path, source.remote) as file:
                assert file.read(500) == content[:500]
        assert server.count("GET") == 1


def test_who_reads_on_and_on_gets_more_at_once(
    files: Path, http_server: Callable[[Path], HttpServer]
) -> None:
    content = os.urandom(40 * BLOCK_BYTES + 7)
    (files / "data").write_bytes(content)
    server = http_server(files)
    (source,) = find_sources(f"{server.url}/data", source_format=NETCDF)
    assert source.remote is not None
    read = bytearray()
    with RemoteFile(source.path, source.remote) as file:
        while piece := file.read(BLOCK_BYTES // 3):
            read += piece
    assert read == content
    assert server.count("GET") <= 8


def test_files_in_azure_are_found_and_read(azure_server: AzureServer) -> None:
    prefix = azure_server.new_prefix()
    azure_server.store(prefix).put("deep/a.tif", b"II*\0 and more")
    given = {
        "account": azure_server.account,
        "access_key": azure_server.access_key,
        "config": {"azure_storage_endpoint": azure_server.endpoint, "azure_allow_http": "true"},
    }
    url = f"az://{azure_server.container}/{prefix}/**/*.tif"
    (source,) = find_sources(url, storage=given)
    assert source == Source(TIFF, url.replace("**/*", "deep/a"))
    assert source.remote is not None
    with RemoteFile(source.path, source.remote) as file:
        assert file.read() == b"II*\0 and more"


def test_a_file_that_is_replaced_while_it_is_read_is_damaged(web: Place) -> None:
    (web.folder / "data").write_bytes(b"a" * 2 * BLOCK_BYTES)
    (source,) = find_sources(f"{web.prefix}data", source_format=NETCDF)
    assert isinstance(source, Source)
    assert isinstance(source.remote, Remote)
    with RemoteFile(source.path, source.remote) as file:
        file.read(10)
        (web.folder / "data").write_bytes(b"b" * (2 * BLOCK_BYTES + 1))
        file.seek(BLOCK_BYTES)
        with pytest.raises(frazil.IcechunkError, match="replaced while it was read"):
            file.read(10)
