import re

import pytest

from frazil.errors import FormatError
from frazil.format.envelope import FileType, decode_envelope
from frazil.ids import ALPHABET, format_base32
from tests.unit.spec.written import FILES, Written

KEYS = re.compile(
    rf"repo|(snapshots|manifests|transactions|chunks)/[{ALPHABET}]{{20}}"
    rf"|overwritten/repo\.\d{{14}}\.[{ALPHABET}]{{20}}"
)


def test_every_file_lies_where_the_specification_puts_it(written: Written) -> None:
    keys = written.keys()
    assert [key for key in keys if not KEYS.fullmatch(key)] == []
    assert {key.partition("/")[0] for key in keys} == {
        "repo",
        "snapshots",
        "manifests",
        "transactions",
        "chunks",
        "overwritten",
    }


def test_a_file_is_named_after_the_id_inside_it(written: Written) -> None:
    for kind in ("snapshots/", "manifests/", "transactions/"):
        for key, table in written.tables(kind):
            assert key == kind + format_base32(table.struct("id").values[0].tobytes())


@pytest.mark.parametrize("kind", FILES)
def test_every_metadata_file_says_its_type(written: Written, kind: str) -> None:
    expected, _ = FILES[kind]
    keys = written.keys(kind)
    assert keys
    assert {written.file_type(key) for key in keys} == {expected}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_another_type_is_refused(written: Written, kind: str) -> None:
    expected, _ = FILES[kind]
    data = written.store.get(written.keys(kind)[0]).data
    for other in set(FileType) - {expected}:
        with pytest.raises(FormatError, match=f"type {expected.name}, expected {other.name}"):
            decode_envelope(data, other)


def test_every_snapshot_has_a_transaction_log(written: Written) -> None:
    snapshots = [key.removeprefix("snapshots/") for key in written.keys("snapshots/")]
    logs = [key.removeprefix("transactions/") for key in written.keys("transactions/")]
    assert len(snapshots) == 3
    assert logs == snapshots
