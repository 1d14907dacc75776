"""Recognises the generation, older than version 1, of a repository. FORMATS: 1.

Looks at names first, then at the newest snapshot of `main`.
"""

from itertools import islice

from frazil.assets.layout import CONFIG_YAML, MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.assets.old_layout import OldLayout
from frazil.assets.ref_sequences import RefFile, RefFiles, parse_ref_key
from frazil.errors import FormatError, ObjectNotFoundError, StorageError
from frazil.format.alpha.recognition import Traces, late_generation, virtual_fields
from frazil.format.alpha.ref_file import OldRef, decode_old_ref
from frazil.format.alpha.snapshot import decode_old_snapshot
from frazil.format.generation import Generation
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from frazil.objectstore.protocol import Data, ObjectInfo, ObjectStore
from frazil.repo.refs import MAIN


def old_generation(store: ObjectStore) -> Generation | None:
    """None if there is no such repository, or the store cannot list: refs could not be found."""
    try:
        later, first = (list(store.list(folder)) for folder in ("refs/", "r/"))
    except StorageError:
        return None
    if (file := _newest_of_main(store, later)) is not None:
        return _with_refs(store, file)
    if (file := _newest_of_main(store, first)) is not None:
        return _first(store, file)
    if _newest_of_main(store, first, documented=True) is not None:
        return Generation.ALPHA1
    return None


def _newest_of_main(
    store: ObjectStore, listed: list[ObjectInfo], *, documented: bool = False
) -> RefFile | None:
    """The newest that can be read; one of another branch if there is none."""
    found = (parse_ref_key(each.key, documented=documented) for each in listed)
    branches = RefFiles.of(found).branches
    if MAIN not in branches:
        return None
    others = (file for name, files in branches.items() if name != MAIN for file in files)
    return next(
        (file for file in (*branches[MAIN], *others) if _is_readable(store, file)),
        branches[MAIN][0],
    )


def _is_readable(store: ObjectStore, file: RefFile) -> bool:
    try:
        decode_old_ref(store.get(file.key).data)
    except FormatError:
        return False
    return True


def _with_refs(store: ObjectStore, file: RefFile) -> Generation:
    """A2 and later."""
    ref = _fetch_ref(store, file)
    if ref.has_long_id:
        return Generation.A2A
    try:
        data = store.get(f"{SNAPSHOTS}{ref.snapshot}").data
    except ObjectNotFoundError:
        if _any_name(store, SNAPSHOTS).endswith(".msgpack"):
            return Generation.A2B
        raise
    if file.width == 13:
        return Generation.A2C
    if file.separator == ":":
        return Generation.A2D
    traces = Traces(
        manifest=_manifest(store, data, ref.snapshot),
        is_first=ref.snapshot == INITIAL_SNAPSHOT,
        has_logs=bool(_any_name(store, TRANSACTIONS)),
        has_config=_is_there(store, CONFIG_YAML),
    )
    return late_generation(data, traces)


def _first(store: ObjectStore, file: RefFile) -> Generation:
    """A1."""
    if _any_name(store, "s/").endswith("==.msgpack"):
        return Generation.A1A
    ref = _fetch_ref(store, file)
    if ref.written_at_us is not None:
        return Generation.A1B
    if _any_name(store, "c/").endswith(".msgpack"):
        return Generation.A1C
    named = OldLayout(store, Generation.A1D)
    data = named.get(f"{SNAPSHOTS}{ref.snapshot}").data
    manifest = _manifest(named, data, ref.snapshot)
    has_maps = manifest is not None and virtual_fields(manifest) == 1
    return Generation.A1E if has_maps else Generation.A1D


def _fetch_ref(store: ObjectStore, file: RefFile) -> OldRef:
    try:
        return decode_old_ref(store.get(file.key).data)
    except FormatError as error:
        raise error.at(file.key) from error


def _manifest(store: ObjectStore, data: Data, name: SnapshotId) -> Data | None:
    """One of the snapshot's."""
    try:
        files = decode_old_snapshot(data, name).snapshot.manifest_files
        return store.get(f"{MANIFESTS}{files[0].id}").data if files else None
    except (FormatError, ObjectNotFoundError):
        return None  # readers of it get the error


def _any_name(store: ObjectStore, folder: str) -> str:
    return next((each.key for each in islice(store.list(folder), 1)), "")


def _is_there(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFoundError:
        return False
    return True
