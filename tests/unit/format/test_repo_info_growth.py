"""A repo info that is read is gone on with where its writer left off, if it says that one can."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.refs.entry import initial_repo_info
from frazil.engine.refs.ops_log import record
from frazil.errors import FormatError
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.repo_info import (
    MOST_STEPS,
    RepoInfo,
    Tail,
    decode_repo_info,
    encode_incrementally,
    encode_repo_info,
    resume_growth,
)
from frazil.format.update_log import GrowingLog, NewCommit, TagCreated
from frazil.ids import SnapshotId


def committed(info: RepoInfo, number: int) -> RepoInfo:
    tip = info.snapshots.id(info.branches["main"])
    new = SnapshotId(number.to_bytes(2) + bytes(10))
    info = info.with_snapshot(new, tip, 7, f"commit {number}", {"n": number})
    info = info.with_branch("main", new)
    return record(
        info, NewCommit("main", new), now_us=number, backup=f"backup{number}", page_size=1000
    )


def grown_file(commits: int) -> bytes:
    info, data = initial_repo_info(1, config={"a": 1}), b""
    for number in range(commits):
        data, info = encode_incrementally(committed(info, 1000 - 7 * number), level=1)
    return data


def test_a_file_that_grew_is_gone_on_with() -> None:
    info = resume_growth(decode_repo_info(grown_file(10)))
    assert isinstance(info.updates, GrowingLog)
    assert isinstance(info.updates.encoded_in, Tail)
    assert info.updates.encoded_in.steps == 9  # the first was encoded as a whole
    data, _ = encode_incrementally(committed(info, 77), level=1)
    assert len(decode_repo_info(data).snapshots) == 12


def test_what_nothing_refers_to_does_not_add_up_from_process_to_process() -> None:
    info = initial_repo_info(1, config=None)
    sizes = []
    for number in range(2 * MOST_STEPS + 5):
        tip = info.snapshots.id(0)
        info = replace(info, tags={"t": 0})
        info = record(info, TagCreated("t"), now_us=number, backup="b", page_size=3)
        data, _ = encode_incrementally(info, level=1)
        info = resume_growth(decode_repo_info(data))
        assert info.snapshots.id(0) == tip
        sizes.append(len(decode_envelope(data, FileType.REPO_INFO).data))
    assert max(sizes[MOST_STEPS + 1 :]) <= max(sizes[: MOST_STEPS + 1]) + 64


def test_a_file_that_was_written_at_once_is_not() -> None:
    info = decode_repo_info(encode_repo_info(initial_repo_info(1, config=None)))
    assert resume_growth(info) is info


PAYLOAD = decode_envelope(grown_file(4), FileType.REPO_INFO).data


@given(st.integers(0, len(PAYLOAD) - 1), st.binary(min_size=1, max_size=4))
def test_damage_is_refused_or_goes_unnoticed(place: int, noise: bytes) -> None:
    damaged = PAYLOAD[:place] + noise + PAYLOAD[place + len(noise) :]
    try:
        info = resume_growth(decode_repo_info(encode_envelope(damaged, FileType.REPO_INFO)))
        assert len(info.snapshots) <= len(PAYLOAD)
    except FormatError:
        pass
