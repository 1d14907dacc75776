"""`import_kerchunk`: a set of references that kerchunk made, as arrays of a session."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from frazil.api.session import IcechunkStore, Session
from frazil.clock import from_datetime
from frazil.engine.session import session as engine
from frazil.errors import FormatError, ObjectNotFoundError, ReadOnlyError
from frazil.format.chunk_refs import RefKind
from frazil.paths import NodePath
from frazil.references.columns import CONSOLIDATED_2, ReferenceSet
from frazil.references.json_sets import decode_json_set, parse_reference_set
from frazil.references.parquet_sets import ContainedFiles, LocalFiles, SetFiles, read_parquet_set
from frazil.references.plan import ImportPlan, plan_import, sizes_of_files, write_plan

type KerchunkSource = str | PathLike[str] | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KerchunkImport:
    """Result of an import, uncommitted."""

    groups: int
    arrays: int
    virtual_chunks: int
    inline_chunks: int  # whose bytes were in the set itself
    files: int  # that virtual chunks are parts of
    virtual_bytes: int


def import_kerchunk(
    target: Session | IcechunkStore,
    source: KerchunkSource,
    *,
    group: str = "",
    root: str | None = None,
    templates: Mapping[str, str] | None = None,
    check_sources: bool = True,
    last_updated_at: datetime | None = None,
    validate_containers: bool = True,
) -> KerchunkImport:
    """Makes arrays of the references of a set, which it leaves to the caller to commit.

    Args:
        target: a writable session, or its store.
        source: a set in memory as kerchunk returns it, or the path or URL of a JSON file or a
            directory of Parquet files. A URL is read as virtual chunks are: a container must
            cover it, and be authorized.
        group: where the set goes. Groups that exist keep what they have; arrays must not exist.
        root: what relative paths of files in the set are relative to, a directory or a URL.
        templates: in place of those of the set that have the same name.
        check_sources: whether a file that is modified later is refused when it is read.
        last_updated_at: files modified after this time are refused; by default, after now.
        validate_containers: whether every file must be in a virtual chunk container.

    Raises:
        ObjectNotFoundError: there is no such set.
        FormatError: it is damaged, or says what cannot be; the message names the set and the key.
        InvalidInputError: a file is in no virtual chunk container.
        AlreadyExistsError: an array is there already.
    """
    session = target.engine if isinstance(target, Session) else target.session.engine
    if target.read_only:
        raise ReadOnlyError(
            "Read only sessions cannot modify the repository: this session is read-only"
        )
    references = read_set(session, source, templates=templates)
    plan = plan_import(
        references,
        group=NodePath.from_key_prefix(group),
        root=root,
        last_modified=_expected_s(session, last_updated_at) if check_sources else 0,
        sizes_of=lambda files: sizes_of_files(session, files),
    )
    write_plan(session, plan, validate_containers=validate_containers)
    return _count(plan)


def read_set(
    session: engine.Session,
    source: KerchunkSource,
    *,
    templates: Mapping[str, str] | None = None,
) -> ReferenceSet:
    if isinstance(source, Mapping):
        return parse_reference_set("references", source, templates=templates)
    place = fspath(source)
    files: SetFiles
    if "://" in place and not place.startswith("file://"):
        files = ContainedFiles(session, place)
    else:
        files = LocalFiles(Path(place.removeprefix("file://")))
    found = None if place.endswith(".json") else read_parquet_set(files)
    if found is not None:
        return found
    if isinstance(files, LocalFiles) and files.root.is_dir():
        raise FormatError(f"a directory without {CONSOLIDATED_2} is no reference set", where=place)
    data = files.find("")
    if data is None:
        raise ObjectNotFoundError(place)
    return decode_json_set(place, data, templates=templates)


def _expected_s(session: engine.Session, last_updated_at: datetime | None) -> int:
    """Returns the last whole second, the current one included: a file may be from just now."""
    now = session.clock() if last_updated_at is None else from_datetime(last_updated_at)
    return -(-now // 1_000_000)


def _count(plan: ImportPlan) -> KerchunkImport:
    refs = [array.refs for array in plan.arrays]
    virtual = [each.kind == RefKind.VIRTUAL for each in refs]
    files = {text for each in refs for text in each.location.pruned().strings.to_list()}
    return KerchunkImport(
        groups=len(plan.groups),
        arrays=len(refs),
        virtual_chunks=sum(int(np.count_nonzero(rows)) for rows in virtual),
        inline_chunks=sum(int(np.count_nonzero(~rows)) for rows in virtual),
        files=len(files),
        virtual_bytes=sum(
            int(each.length[rows].sum()) for each, rows in zip(refs, virtual, strict=True)
        ),
    )
