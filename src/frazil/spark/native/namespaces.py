"""CREATE, ALTER and DROP of namespaces: repositories, their groups, and folders of a warehouse.

| namespace | CREATE | DROP |
|---|---|---|
| in a repository | a group | the group, if it is empty or with CASCADE |
| in a folder | a repository, or with the property `kind` a folder | only what never held anything |

A repository is its whole history. SQL never deletes one that has any.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from frazil.engine.refs.version import Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import AlreadyExistsError, InvalidInputError, SessionStateError
from frazil.format.update_log import Availability, RepoStatus
from frazil.objectstore.keys import LOCK_NAME
from frazil.objectstore.local import LocalStore
from frazil.paths import ROOT
from frazil.spark.native.names import (
    NOT_EMPTY,
    TAKEN,
    NoSuchNameError,
    Place,
    Settings,
    find_place,
    folder_exists,
    holds_repository,
    list_folders,
)
from frazil.spark.native.targets import (
    Target,
    attribute_changes,
    commit_statement,
    find_target,
    find_there,
    set_attributes,
)
from frazil.spark.runtime.storage_options import require_shared
from frazil.spark.table.documents import group_document

_KINDS = ("folder", "repository", "group")
# Keys of a repository that never had an array.
_OF_EMPTY = ("repo", "snapshots/", "transactions/", "overwritten/", "refs/", "config.yaml")
_MOST_SNAPSHOTS = 16  # that are looked into, of a repository that might be empty


def create_namespace(
    settings: Settings, parts: tuple[str, ...], properties: Mapping[str, str]
) -> None:
    """Raises an error of the kind TAKEN if there is one."""
    given = {name: text for name, text in properties.items() if name != "owner"}  # Spark's own
    kind = given.pop("kind", None)
    if "location" in given:
        raise InvalidInputError("where a namespace is follows from its name: leave out LOCATION")
    if kind not in {None, *_KINDS}:
        raise InvalidInputError(f"the kind of a namespace is {kind!r}, not {', '.join(_KINDS)}")
    changes = [{"change": "set", "property": n, "value": text} for n, text in given.items()]
    attributes = {n: v for n, v in attribute_changes(changes).items() if v is not None}
    place = find_place(settings, parts)
    if place.is_repository:
        _create_group(settings, parts, place, kind, attributes)
    elif kind == "folder":
        _require_visible(settings, parts)
        _create_folder(settings, place, attributes)
    elif kind == "group":
        raise InvalidInputError(f"no repository at {place.location} for a group")
    else:
        repository = create_repository(
            settings, parts, place.location, anywhere=kind == "repository"
        )
        target = Target(repository, place.location, ROOT, "main", there=False)
        commit_statement(
            target, "CREATE NAMESPACE", lambda session: _group(session, target, attributes)
        )


def _create_group(
    settings: Settings,
    parts: tuple[str, ...],
    place: Place,
    kind: str | None,
    attributes: Mapping[str, Any],
) -> None:
    if kind == "folder":
        raise InvalidInputError(f"{place.location} is a repository: there are groups in it")
    target = find_target(settings, parts, place=place)
    if target.there:
        raise AlreadyExistsError(f"there is {target.name} already", kind=TAKEN)
    commit_statement(
        target, "CREATE NAMESPACE", lambda session: _group(session, target, attributes)
    )


def _group(session: Session, target: Target, attributes: Mapping[str, Any]) -> None:
    for path in [*reversed([*target.path.ancestors]), target.path]:
        if session.find_node(path) is None:
            session.set_node(path, group_document(attributes if path == target.path else {}))
        elif path == target.path:
            raise AlreadyExistsError(f"there is {target.name} already", kind=TAKEN)


def _create_folder(settings: Settings, place: Place, attributes: Mapping[str, Any]) -> None:
    if attributes:
        raise InvalidInputError("a folder has no comment and no properties")
    store = require_shared(settings.store(place.location))
    if not isinstance(store, LocalStore):
        raise InvalidInputError(
            "folders of a bucket are there with what is in them: create a repository"
        )
    if Path(store.root).is_dir():
        raise AlreadyExistsError(f"there is a folder {place.location}", kind=TAKEN)
    Path(store.root).mkdir(parents=True)


def create_repository(
    settings: Settings, parts: Sequence[str], location: str, *, anywhere: bool = False
) -> Repository:
    """A repository without anything in it; unless `anywhere`, in a folder that is there.

    The folder must be there, as otherwise it would be open whether `a.b` is a repository in a
    folder, or a group in a repository.
    """
    _require_visible(settings, parts)
    folder = location.rstrip("/").rpartition("/")[0]
    if not (anywhere or len(parts) == 1 or folder_exists(settings, folder)):
        raise InvalidInputError(
            f"no repository and no folder {folder}: create that namespace first, or give the"
            " property 'kind'='repository' to CREATE NAMESPACE"
        )
    return Repository.create(settings.store(location))


def _require_visible(settings: Settings, parts: Sequence[str]) -> None:
    """Refuses names of folders that could not be listed, or would be taken for a version."""
    named = parts if settings.warehouse is not None else parts[1:]
    for name in named:
        if name.startswith(".") or "@" in name or not name.isprintable():
            raise InvalidInputError(f"{name!r} cannot be the name of a repository or folder")


def alter_namespace(
    settings: Settings, parts: tuple[str, ...], changes: Sequence[Mapping[str, Any]]
) -> None:
    place = find_place(settings, parts)
    if not place.is_repository:
        if not folder_exists(settings, place.location):
            raise NoSuchNameError(f"no folder {place.location}")
        raise InvalidInputError(f"{place.location} is a folder, which has no properties")
    changed = attribute_changes(changes)
    target = _find_group(settings, parts)
    commit_statement(
        target,
        "ALTER NAMESPACE",
        lambda session: set_attributes(session, target.path, changed),
    )


def _find_group(settings: Settings, parts: tuple[str, ...]) -> Target:
    target = find_there(settings, parts)
    if target.is_array:
        raise NoSuchNameError(f"{target.name} is an array, not a namespace")
    return target


def drop_namespace(settings: Settings, parts: tuple[str, ...], *, cascade: bool) -> None:
    """Raises an error of the kind NOT_EMPTY if there is something in it, and no CASCADE."""
    place = find_place(settings, parts)
    if not place.is_repository:
        _drop_folder(settings, place)
        return
    if not place.rest:
        _drop_repository(settings, place, cascade=cascade)
        return
    target = _find_group(settings, parts)
    if target.path == ROOT:
        raise InvalidInputError("the branch of a repository is no namespace to drop")
    commit_statement(
        target, "DROP NAMESPACE", lambda session: _drop_group(session, target, cascade=cascade)
    )


def _drop_group(session: Session, target: Target, *, cascade: bool) -> None:
    if session.child_names(target.path) and not cascade:
        raise SessionStateError(f"{target.name} is not empty", kind=NOT_EMPTY)
    session.delete_node(target.path)


def _drop_folder(settings: Settings, place: Place) -> None:
    if not folder_exists(settings, place.location):
        raise NoSuchNameError(f"no folder {place.location}")
    store = require_shared(settings.store(place.location))
    if not isinstance(store, LocalStore) or list_folders(settings, place.location):
        raise InvalidInputError(
            f"the folder {place.location} has something in it, which SQL does not delete"
        )
    try:
        Path(store.root).rmdir()
    except OSError as error:
        raise InvalidInputError(f"the folder {place.location} is not empty") from error


def _drop_repository(settings: Settings, place: Place, *, cascade: bool) -> None:
    repository = settings.open(place.location)
    if not _never_held_anything(repository):
        if not cascade:
            raise SessionStateError(f"{place.location} is not empty", kind=NOT_EMPTY)
        raise InvalidInputError(
            f"{place.location} is a repository with a history, which SQL does not delete, not even"
            " with CASCADE: drop its tables and groups, or delete its folder with the tools of the"
            " storage"
        )
    store = settings.store(place.location)
    strange = [info.key for info in store.list() if not info.key.startswith(_OF_EMPTY)]
    if strange:
        raise InvalidInputError(
            f"{place.location} has files that are not those of an empty repository: {strange[0]}"
        )
    if repository.has_ops_log:  # from now on no client can commit
        _set_availability(repository, Availability.READ_ONLY)
        if not _never_held_anything(repository):
            _set_availability(repository, Availability.ONLINE)
            raise SessionStateError(f"{place.location} is not empty", kind=NOT_EMPTY)
    store.delete([info.key for info in store.list() if info.key.startswith(_OF_EMPTY)])
    shared = require_shared(store)
    if isinstance(shared, LocalStore) and not holds_repository(store):
        _remove_empty_folders(Path(shared.root))


def _set_availability(repository: Repository, availability: Availability) -> None:
    repository.set_status(RepoStatus(availability, repository.clock(), "DROP NAMESPACE"))


def _never_held_anything(repository: Repository) -> bool:
    """True if no snapshot has a node but the root, and there is no other branch and no tag."""
    if repository.tags() or len(repository.branches()) > 1:
        return False
    info = repository.maintained_info()
    count = len(info.snapshots)
    if count > _MOST_SNAPSHOTS:
        return False
    for row in range(count):
        session = repository.readonly_session(Exactly(info.snapshots.id(row)))
        if any(node.path != ROOT for node in session.nodes()):
            return False
    return True


def _remove_empty_folders(folder: Path) -> None:
    if not any(path.is_file() for path in folder.rglob("*") if path.name != LOCK_NAME):
        (folder / LOCK_NAME).unlink(missing_ok=True)
    for below, _, _ in folder.walk(top_down=False):
        with suppress(OSError):  # another process put something there
            below.rmdir()
