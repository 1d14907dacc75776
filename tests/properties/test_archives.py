"""Archives: what goes in comes out, and damaged ones raise our errors and nothing else."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import IcechunkError
from frazil.objectstore.archive import ABOUT, END, INDEX, ArchiveStore, ArchiveWriter
from frazil.ranges import Range
from frazil.testing.disk import watched_disk
from frazil.testing.forgetful_disk import ForgetfulDisk
from tests.examples_count import scaled

_SEGMENT = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1
).filter(lambda text: text not in {".", ".."})
KEYS = st.lists(_SEGMENT, min_size=1, max_size=3).map("/".join)
OBJECTS = st.dictionaries(KEYS, st.binary(max_size=2000), max_size=12)


def written(path: Path, objects: dict[str, bytes]) -> ArchiveStore:
    with ArchiveWriter(path, {"what": "a test"}) as archive:
        for key, data in objects.items():
            archive.put(key, data)
            assert bytes(archive.get(key).data) == data
    return ArchiveStore(path)


@settings(max_examples=scaled(60))
@given(OBJECTS, st.data())
def test_what_goes_in_comes_out(objects: dict[str, bytes], data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        archive = written(Path(directory, "a"), objects)
        found = {info.key: info.size_bytes for info in archive.list()}
        sizes = {key: len(content) for key, content in objects.items()}
        assert {key: found[key] for key in sizes} == sizes
        assert found.keys() - sizes.keys() == {ABOUT, INDEX, END} - {INDEX, END}
        assert archive.about() == {"what": "a test"}
        for key, content in objects.items():
            assert bytes(archive.get(key).data) == content
            start = data.draw(st.integers(0, 2500))
            stop = data.draw(st.integers(start, 3000))
            part = archive.get(key, Range(start, stop))
            assert bytes(part.data) == content[start:stop]
        prefix = data.draw(st.sampled_from(["", *[key[:2].rstrip("/") for key in objects]]))
        listed = {info.key for info in archive.list(prefix)} - {ABOUT}
        assert listed == {key for key in objects if key.startswith(prefix)}


@settings(max_examples=scaled(150))
@given(st.data())
def test_damage_raises_our_errors_and_nothing_else(data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory, "a")
        written(path, {"repo": b"x" * 700, "chunks/é": b"", "chunks/b": b"y" * 30})
        content = bytearray(path.read_bytes())
        if data.draw(st.booleans()):
            del content[data.draw(st.integers(0, len(content))) :]
        places = st.integers(0, max(0, len(content) - 1))
        for _ in range(data.draw(st.integers(1, 6)) if content else 0):
            content[data.draw(places)] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        archive = ArchiveStore(path)
        try:
            archive.about()
            for info in archive.list():
                archive.get(info.key)
                archive.get(info.key, Range(0, 10))
        except IcechunkError:
            pass


def test_an_archive_keeps_its_name_when_the_power_fails(tmp_path: Path) -> None:
    archive = ArchiveWriter(tmp_path / "whole", {})
    archive.put("key", b"value")
    disk = ForgetfulDisk.of(tmp_path)
    with watched_disk(tmp_path, after=disk.apply), archive:
        pass  # it gets its name now
    assert disk.image().files.keys() == {"whole"}
