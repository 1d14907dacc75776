"""TIFF and GeoTIFF images as virtual arrays: what frazil reads is what tifffile reads."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr

from frazil.errors import FormatError, ObjectChangedError
from frazil.references import import_kerchunk
from tests.sources.places import Place

IMAGE = np.random.default_rng(5).integers(0, 60_000, (64, 48), "u2")
COLOURS = np.random.default_rng(6).integers(0, 255, (32, 32, 3), "u1")
GEOGRAPHY = [  # of a GeoTIFF: pixel scale, tie point, keys
    (33550, "d", 3, (0.1, 0.1, 0.0), True),
    (33922, "d", 6, (0.0, 0.0, 0.0, 5.0, 60.0, 0.0), True),
    (34735, "H", 8, (1, 1, 0, 1, 1024, 0, 1, 2), True),
]
LAYOUTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "one strip": (IMAGE, {}),
    "strips": (IMAGE, {"rowsperstrip": 16}),
    "tiles": (IMAGE, {"tile": (32, 16)}),
    "deflated strips": (IMAGE, {"rowsperstrip": 16, "compression": "zlib"}),
    "deflated tiles": (IMAGE, {"tile": (32, 32), "compression": "zlib"}),
    "big endian": (IMAGE, {"byteorder": ">", "rowsperstrip": 16}),
    "floats": (IMAGE.astype("f4") / 7, {"tile": (16, 16), "compression": "zlib"}),
    "colours": (COLOURS, {"tile": (16, 16), "photometric": "rgb"}),
    "geography": (IMAGE, {"tile": (32, 32), "compression": "zlib", "extratags": GEOGRAPHY}),
    "big file": (IMAGE, {"bigtiff": True, "rowsperstrip": 32}),
}


def references(place: Place, file: Path) -> dict[str, Any]:
    """As tifffile makes them: a single array, of version 0."""
    place.publish(file)
    written = file.with_suffix(".json")
    image: Any = tifffile.imread(file, aszarr=True)
    with image as store:
        store.write_fsspec(str(written), url=place.prefix)
    found: dict[str, Any] = json.loads(written.read_bytes())
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_image_is_read_as_tifffile_reads_it(disk: Place, layout: str, tmp_path: Path) -> None:
    values, options = LAYOUTS[layout]
    file = disk.folder / "image.tif"
    tifffile.imwrite(file, values, **options)
    session = disk.repository(tmp_path / "repo").writable_session("main")
    import_kerchunk(session, references(disk, file), group="image")
    ours = zarr.open_array(session.store, path="image", mode="r")
    np.testing.assert_array_equal(ours[...], tifffile.imread(file))
    names: Any = ours.metadata.to_dict()["dimension_names"]
    assert names[:2] == ("Y", "X")


def test_images_are_read_wherever_they_are(place: Place, tmp_path: Path) -> None:
    file = place.folder / "image.tif"
    tifffile.imwrite(file, IMAGE, tile=(16, 16), compression="zlib", extratags=GEOGRAPHY)
    repo = place.repository(tmp_path / "repo")
    session = repo.writable_session("main")
    done = import_kerchunk(session, references(place, file), group="tiles/image")
    session.commit("an image")
    ours = zarr.open_array(repo.readonly_session("main").store, path="tiles/image", mode="r")
    np.testing.assert_array_equal(ours[10:50, 7:40], tifffile.imread(file)[10:50, 7:40])
    assert (done.arrays, done.files, done.virtual_chunks) == (1, 1, 12)


def test_an_image_that_was_replaced_is_refused(place: Place, tmp_path: Path) -> None:
    file = place.folder / "image.tif"
    tifffile.imwrite(file, IMAGE, rowsperstrip=16)
    session = place.repository(tmp_path / "repo").writable_session("main")
    found = references(place, file)
    etag = place.etag(file)
    import_kerchunk(session, found, group="image")
    for number in range(4):  # as a tool does that knows ETags
        location, offset, length = found[f"{number}.0"]
        session.store.set_virtual_ref(
            f"image/c/{number}/0", location, offset=offset, length=length, checksum=etag
        )
    array = zarr.open_array(session.store, path="image", mode="r")
    np.testing.assert_array_equal(array[...], IMAGE)
    tifffile.imwrite(file, IMAGE[::-1], rowsperstrip=16)
    place.publish(file)
    with pytest.raises(ObjectChangedError, match=r"image\.tif"):
        array[...]


def test_a_codec_that_zarr_does_not_know_is_named(disk: Place, tmp_path: Path) -> None:
    file = disk.folder / "image.tif"
    tifffile.imwrite(file, IMAGE, tile=(32, 32), compression="zlib", predictor=True)
    session = disk.repository(tmp_path / "repo").writable_session("main")
    with pytest.raises(FormatError, match=r"'\.zarray'.*'imagecodecs_delta'"):
        import_kerchunk(session, references(disk, file), group="image")
    assert not session.has_uncommitted_changes
