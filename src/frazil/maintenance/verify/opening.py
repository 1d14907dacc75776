"""A metadata file as its raw table, or what keeps it from being one."""

from dataclasses import dataclass

from frazil.errors import FormatError, ObjectNotFoundError, StorageError
from frazil.flatbuf.decode import decode
from frazil.flatbuf.schema import TableSchema
from frazil.flatbuf.table import Table
from frazil.format.envelope import HEADER, FileType, decode_envelope, decode_header
from frazil.format.schemas import MANIFEST, REPO, SNAPSHOT, TRANSACTION_LOG
from frazil.ids import format_base32
from frazil.maintenance.verify.problems import Problem, problem
from frazil.objectstore.protocol import Data, ObjectStore

SCHEMAS: dict[FileType, TableSchema] = {
    FileType.SNAPSHOT: SNAPSHOT,
    FileType.MANIFEST: MANIFEST,
    FileType.TRANSACTION_LOG: TRANSACTION_LOG,
    FileType.REPO_INFO: REPO,
}


@dataclass(frozen=True, slots=True, eq=False)
class OpenedFile:
    """A file as it is in the bytes: nothing sorted, nothing converted."""

    key: str
    spec_version: int
    root: Table  # one row
    size_bytes: int


def open_file(
    key: str, data: Data, expected: FileType, problems: list[Problem]
) -> OpenedFile | None:
    """None if it cannot be read; `problems` gets what was noticed."""
    try:
        header = decode_header(data)
    except FormatError as error:
        problems.append(problem("header-invalid", key, error.message))
        return None
    problems += check_writer(key, data)
    if header.file_type is not expected:
        text = f"file is of type {header.file_type.name}, expected {expected.name}"
        problems.append(problem("file-type", key, text))
        return None
    try:
        envelope = decode_envelope(data, expected)
        root = decode(envelope.data, SCHEMAS[expected])
    except FormatError as error:
        problems.append(problem("file-damaged", key, error.message))
        return None
    return OpenedFile(key, envelope.spec_version, root, len(data))


def check_id(opened: OpenedFile, problems: list[Problem]) -> None:
    """Checks a file that is named after the id inside it."""
    found = format_base32(opened.root.struct("id").values[0].tobytes())
    name = opened.key.rpartition("/")[2]
    if found != name:
        problems.append(problem("file-id", opened.key, f"the id inside is {found}"))


def check_version(opened: OpenedFile, repository: int | None) -> list[Problem]:
    """A repository may have files of an older version than its own, since it may be migrated."""
    if repository is None or opened.spec_version <= repository:
        return []
    text = f"of version {opened.spec_version}, in a repository of version {repository}"
    return [problem("version-unexpected", opened.key, text)]


def check_writer(key: str, data: Data) -> list[Problem]:
    _, writer, *_ = HEADER.unpack_from(data)
    try:
        text = writer.decode()
    except UnicodeDecodeError:
        return [problem("header-writer", key, f"the writer is {writer!r}")]
    if text.startswith(" ") or "\0" in text:
        return [problem("header-writer", key, f"the writer is {text!r}")]
    return []


type Fetched = Data | StorageError | None


def fetch(store: ObjectStore, key: str) -> Fetched:
    """None if it is not there."""
    try:
        return store.get(key).data
    except ObjectNotFoundError:
        return None
    except StorageError as error:
        return error
