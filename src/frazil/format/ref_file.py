"""A branch or tag of a version 1 repository: a small JSON file with the id of a snapshot."""

import json
from collections.abc import Buffer

from frazil.errors import FormatError, InvalidInputError
from frazil.ids import SnapshotId

__all__ = ["decode_ref", "encode_ref"]


def decode_ref(data: Buffer) -> SnapshotId:
    try:
        document = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"a ref is not JSON: {error}") from error
    match document:
        case {"snapshot": str(text)}:
            try:
                return SnapshotId.parse(text)
            except InvalidInputError as error:
                raise FormatError(f"a ref has no snapshot id but {text!r}") from error
        case _:
            raise FormatError(f"a ref is {document!r}, expected an object with a snapshot id")


def encode_ref(snapshot: SnapshotId) -> bytes:
    return f'{{"snapshot":"{snapshot}"}}'.encode()
