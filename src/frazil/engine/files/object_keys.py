"""Keys of a repository's files, below its root.

repo                      the entry point, the only object that is ever overwritten
snapshots/<id>            one per commit
manifests/<id>
transactions/<id>         one per commit, named after its snapshot
chunks/<id>
overwritten/repo.<t>.<r>  earlier versions of `repo`; <t> counts down, so the newest lists first
staged/<branch>/<t>.<r>   commits that wait for others to make them (docs/design/035): a ticket, or
                          no bytes if it was withdrawn; .done beside it once a writer has answered

Version 1 has no `repo` but
refs/branch.<name>/ref.json
refs/tag.<name>/ref.json          and ref.json.deleted beside it once the tag is deleted
config.yaml                       if the configuration is not the default
"""

from urllib.parse import quote

from frazil.ids import ChunkId, ManifestId, ObjectId, SnapshotId, format_base32, parse_base32

REPO_INFO = "repo"
SNAPSHOTS = "snapshots/"
MANIFESTS = "manifests/"
TRANSACTIONS = "transactions/"
CHUNKS = "chunks/"
OVERWRITTEN = "overwritten/"
STAGED = "staged/"
RECEIPT = ".done"
REFS = "refs/"
V1_MAIN_BRANCH = "refs/branch.main/ref.json"
CONFIG_YAML = "config.yaml"

TICKET_BYTES = 8
_YEAR_3000_MS = 32_503_680_000_000


def snapshot_key(snapshot: SnapshotId) -> str:
    return f"{SNAPSHOTS}{snapshot}"


def manifest_key(manifest: ManifestId) -> str:
    return f"{MANIFESTS}{manifest}"


def transaction_key(snapshot: SnapshotId) -> str:
    return f"{TRANSACTIONS}{snapshot}"


def chunk_key(chunk: ChunkId) -> str:
    return f"{CHUNKS}{chunk}"


def branch_key(name: str) -> str:
    return f"{REFS}branch.{name}/ref.json"


def tag_key(name: str) -> str:
    return f"{REFS}tag.{name}/ref.json"


def tombstone_key(name: str) -> str:
    return f"{tag_key(name)}.deleted"


def ref_of_key(key: str) -> tuple[str, str, bool] | None:
    """Parses the key of a ref: `branch` or `tag`, its name, and True for a tombstone."""
    match key.split("/"):
        case ["refs", folder, ("ref.json" | "ref.json.deleted") as file]:
            kind, dot, name = folder.partition(".")
            return (kind, name, file != "ref.json") if dot else None
    return None


def backup_name(now_us: int, *, of: str = REPO_INFO) -> str:
    """A fresh name for a copy of a file; the ops log cites it without the `overwritten/`."""
    return f"{of}.{_YEAR_3000_MS - now_us // 1000:014d}.{ObjectId.random()}"


def staged_folder(branch: str) -> str:
    """The prefix of tickets for a branch."""
    return f"{STAGED}{quote(branch, safe='').replace('.', '%2E')}/"


def ticket_key(branch: str, now_us: int, ticket: bytes) -> str:
    """The key of a ticket of 8 random bytes; listings are in order of time."""
    return f"{staged_folder(branch)}{now_us:017d}.{format_base32(ticket)}"


def ticket_of_key(key: str) -> bytes | None:
    """The bytes of a ticket, also from the key of its receipt; None if it is no such key."""
    name = key.rpartition("/")[2].removesuffix(RECEIPT).partition(".")[2]
    try:
        return parse_base32(name, TICKET_BYTES)
    except ValueError:
        return None
