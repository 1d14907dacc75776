"""Whether chunks that two writers stored are equal, which only reading them can tell."""

from collections.abc import Sequence

from frazil.assets.files import Files
from frazil.repo.chunk_overlaps import Doubt
from frazil.repo.chunk_reads import fetch_payload


def same_bytes(files: Files, doubts: Sequence[Doubt]) -> list[bool]:
    """For each pair, whether the two are equal. Reads all of both."""

    def compare(doubt: Doubt) -> bool:
        one, two = (fetch_payload(files, payload, None) for payload in doubt.payloads)
        return bytes(one) == bytes(two)

    return files.pool.map(compare, list(doubts))
