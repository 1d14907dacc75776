"""CREATE, ALTER, DROP and RENAME of tables: groups with arrays, and single arrays.

A new table is what `df.write.format("icechunk")` makes of an empty DataFrame in the mode `create`;
its properties are the options of that. A new column is an array of the table's dimensions, in the
chunks of its first variable, with nothing but the fill value in it.

| question | |
|---|---|
| `{"ddl": "create table", "schema", "partitions", "properties"}` | with `replaces`, in place of one
that may be there |
| `{"ddl": "stage table"}`, with the same | `options` of the write that makes it with its rows |
| `{"ddl": "alter table", "changes"}`, `{"ddl": "rename table", "to"}`, `{"ddl": "drop table"}` | |
| `{"ddl": "create namespace", "properties"}`, `alter namespace`, `drop namespace` | see
frazil.spark.native.namespaces |

Each has `as`, `in` and `name` as the questions of frazil.spark.native.catalog have, and the answer
`error`, with `missing`, `exists` or `full` where Spark has an error of its own.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from pyspark.sql.types import DataType, LongType, StructField, StructType

from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT, NodePath
from frazil.spark.native.answers import with_answer
from frazil.spark.native.names import TAKEN, NoSuchNameError, Settings, find_place, has_arrays
from frazil.spark.native.namespaces import (
    alter_namespace,
    create_namespace,
    create_repository,
    drop_namespace,
)
from frazil.spark.native.targets import (
    Target,
    attribute_changes,
    attributes_of,
    commit_statement,
    find_target,
    find_there,
    new_path,
    set_attributes,
)
from frazil.spark.table.description import ArrayDescription, Grid, choose_grid
from frazil.spark.table.opened import Opened
from frazil.spark.writing.blocks import Growth, KnownDimension
from frazil.spark.writing.columns import new_array, stored_column
from frazil.spark.writing.layout import Target as Arrays
from frazil.spark.writing.layout import VariableTarget, plan_layout
from frazil.spark.writing.options import NewArrays, WriteMode, WriteOptions, parse_write_options
from frazil.spark.writing.session import apply_layout, prepare, write_coordinates

type Change = Mapping[str, Any]

PROPERTIES = (  # of CREATE TABLE: options of a write that concern new arrays
    "dims", "chunks", "appendDim", "positions", "dtypes", "fill", "units", "codecs", "attrs",
    "groupAttrs", "message", "metadata",
)  # fmt: skip
_FORMATS = {"icechunk", "frazil"}
_VERBS = {WriteMode.CREATE: "CREATE TABLE", WriteMode.OVERWRITE: "REPLACE TABLE"}


def answer_ddl(question: Mapping[str, Any], settings: Settings) -> StructType:
    match question:
        case {"ddl": "create namespace", "in": list(parts), "properties": dict(given)}:
            create_namespace(settings, tuple(parts), given)
        case {"ddl": "alter namespace", "in": list(parts), "changes": list(changes)}:
            alter_namespace(settings, tuple(parts), changes)
        case {"ddl": "drop namespace", "in": list(parts), "cascade": bool(cascade)}:
            drop_namespace(settings, tuple(parts), cascade=cascade)
        case {"ddl": "create table", "in": list(parts), "name": str(name)}:
            _create_table(settings, (*parts, name), question)
        case {"ddl": "stage table", "in": list(parts), "name": str(name)}:
            return with_answer(StructType(), _stage_table(settings, (*parts, name), question))
        case {"ddl": "alter table", "in": list(parts), "name": str(name), "changes": list(changes)}:
            _alter_table(find_there(settings, (*parts, name)), changes)
        case {"ddl": "rename table", "in": list(parts), "name": str(name), "to": list(to)}:
            _rename_table(settings, (*parts, name), tuple(to))
        case {"ddl": "drop table", "in": list(parts), "name": str(name)}:
            _drop_table(find_there(settings, (*parts, name)))
        case _:
            raise InvalidInputError("the catalog asks nothing that is known")
    return with_answer(StructType(), {})


# CREATE TABLE


def _create_table(settings: Settings, parts: tuple[str, ...], question: Mapping[str, Any]) -> None:
    schema = StructType.fromJson(json.loads(question["schema"]))
    target, options = _new_table(settings, parts, schema, question)
    _commit_table(target, schema, options)


def _stage_table(
    settings: Settings, parts: tuple[str, ...], question: Mapping[str, Any]
) -> dict[str, Any]:
    """A new repository is made at once, and stays empty if the rows never come."""
    schema = StructType.fromJson(json.loads(question["schema"]))
    target, options = _new_table(settings, parts, schema, question)
    verb = "REPLACE" if options.mode is WriteMode.OVERWRITE else "CREATE"
    own = _own_properties(question["properties"])
    told = {name: text for name, text in own.items() if name != "comment"} | {
        "path": target.location,
        "group": str(target.path),
        "branch": target.branch,
        "mode": str(options.mode),
        "dims": json.dumps(options.dims),
        "attrs": json.dumps(options.new.attrs),
        "groupAttrs": json.dumps(options.group_attrs),
        "message": options.message or f"{verb} TABLE {target.name} AS SELECT",
    }
    return {"options": told}


def _new_table(
    settings: Settings, parts: tuple[str, ...], schema: StructType, question: Mapping[str, Any]
) -> tuple[Target, WriteOptions]:
    """The place of a new table, and the options that make it; makes a missing repository."""
    if question.get("default"):
        raise InvalidInputError(f"column {question['default']!r} has a default: there is only fill")
    replaces = question.get("replaces") is True
    properties, place = _own_properties(question["properties"]), find_place(settings, parts)
    if place.is_repository:
        target = find_target(settings, parts, place=place)
        if not replaces:
            _require_free(target)
        elif target.is_array:
            raise InvalidInputError(f"{target.name} is an array, which no table can replace")
        options = _options(target, schema, properties, question["partitions"], replaces=replaces)
        return target, options
    rehearsed = Target(Repository.create(MemoryStore()), place.location, ROOT, "main", False)
    options = _options(rehearsed, schema, properties, question["partitions"], replaces=replaces)
    _commit_table(rehearsed, schema, options)  # what is wrong leaves no empty repository
    repository = create_repository(settings, parts, place.location)
    return replace(rehearsed, repository=repository), options


def _commit_table(target: Target, schema: StructType, options: WriteOptions) -> None:
    def create(session: Session) -> None:
        prepared = prepare(session, schema, options)
        found = {
            each.name: np.zeros(0, dtype=each.column.work_dtype)
            for each in prepared.target.dimensions
        }
        layout = plan_layout(prepared.target, prepared.documents, found, options.new)
        apply_layout(session, prepared.target, layout, options.group_attrs)
        write_coordinates(session, layout)

    commit_statement(
        target, _VERBS[options.mode], create, message=options.message, metadata=options.metadata
    )


def _require_free(target: Target) -> None:
    session = target.repository.writable_session(target.branch)
    if target.is_array or (target.there and has_arrays(session, target.path)):
        raise AlreadyExistsError(f"there is a table {target.name}", kind=TAKEN)


def _own_properties(given: Mapping[str, str]) -> dict[str, str]:
    """Properties without those that Spark adds. Raises InvalidInputError for unknown ones."""
    if given.get("provider", "icechunk").lower() not in _FORMATS:
        raise InvalidInputError(
            f"USING {given['provider']}: the tables of this catalog are of the format icechunk"
        )
    if given.get("location") is not None:
        raise InvalidInputError("where a table is follows from its name: leave out LOCATION")
    names = {name.lower(): name for name in PROPERTIES}
    of_spark = {"owner", "provider", "external", "is_managed_location"}
    left = {name: text for name, text in given.items() if name not in of_spark}
    for name in left:
        if name.lower() in names or name == "comment":
            continue
        if name.lower() == "order":
            raise InvalidInputError(
                "the property 'order' has no effect on a table without rows: it is an option of the"
                " first write"
            )
        close = get_close_matches(name.lower(), names, n=1)
        hint = f" (did you mean {names[close[0]]!r}?)" if close else ""
        raise InvalidInputError(
            f"unknown property {name!r}{hint}; the properties of a new table are"
            f" {', '.join(PROPERTIES)}, and attributes are a JSON object in groupAttrs"
        )
    return left


def _options(
    target: Target,
    schema: StructType,
    properties: Mapping[str, str],
    partitions: Sequence[Mapping[str, Any]],
    *,
    replaces: bool = False,
) -> WriteOptions:
    comment = properties.get("comment")
    given = {name: text for name, text in properties.items() if name != "comment"}
    place = {"path": target.location, "group": str(target.path), "branch": target.branch}
    mode = "overwrite" if replaces else "create"
    options = parse_write_options({**given, **place, "mode": mode})
    options = replace(options, dims=_dims(schema, options.dims, partitions))
    for each in schema:
        if not each.nullable and each.name not in (options.dims or ()):
            raise InvalidInputError(
                f"column {each.name!r} is NOT NULL, which no array can promise; dimensions are"
                " never NULL"
            )
    if comment:
        attrs = {"comment": comment, **options.group_attrs}
        if attrs["comment"] != comment:
            raise InvalidInputError("COMMENT and groupAttrs say different comments")
        options = replace(options, group_attrs=attrs)
    return replace(options, new=_with_names(options.new, schema))


def _dims(
    schema: StructType, dims: tuple[str, ...] | None, partitions: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Dimensions, by the property `dims` or by PARTITIONED BY."""
    for each in partitions:
        if each["name"] != "identity" or len(each["columns"]) != 1 or len(each["columns"][0]) != 1:
            raise InvalidInputError(
                f"PARTITIONED BY ({each['text']}): only columns, which are the dimensions; the"
                " property 'chunks' says how they are divided"
            )
    columns = tuple(each["columns"][0][0] for each in partitions)
    if columns and dims is not None and columns != dims:
        raise InvalidInputError(
            f"PARTITIONED BY says {', '.join(columns)}, the property 'dims' {', '.join(dims)}"
        )
    found = columns or dims
    if not found:
        raise InvalidInputError(
            "which columns are dimensions? Say PARTITIONED BY (time, lat), or"
            " TBLPROPERTIES ('dims' = 'time, lat'); the columns are"
            f" {', '.join(schema.names)}"
        )
    return found


def _with_names(new: NewArrays, schema: StructType) -> NewArrays:
    """Comments of columns as attributes `long_name`."""
    attrs = {name: dict(each) for name, each in new.attrs.items()}
    for column in schema:
        own = attrs.get(column.name, {})
        units = new.units.get(column.name) or own.get("units")
        name = long_name(_comment(column), units if isinstance(units, str) else None)
        if name is None:
            continue
        if column.name in new.positions:
            raise InvalidInputError(
                f"dimension {column.name!r} has no coordinate, and so no comment"
            )
        if own.get("long_name", name) != name:
            raise InvalidInputError(f"COMMENT and attrs say different names of {column.name!r}")
        attrs[column.name] = {**own, "long_name": name}
    return replace(new, attrs=attrs)


def _comment(column: StructField) -> str | None:
    return (column.metadata or {}).get("comment")


def long_name(comment: str | None, units: str | None) -> str | None:
    """The name in a comment, as DESCRIBE shows it: with the units, `temperature (K)`."""
    if not comment:
        return None
    shown = re.fullmatch(r"(.*) \((.+)\)", comment, re.DOTALL)
    if shown and (shown[2] == units or re.fullmatch(r"\w+ since .*", shown[2])):
        return shown[1]
    return None if comment == units else comment


# ALTER TABLE


def _alter_table(target: Target, changes: Sequence[Change]) -> None:
    kinds = {each["change"] for each in changes}
    message = f"ALTER TABLE {target.name} {_summary(changes)}"
    if kinds <= {"rename column"}:
        commit_statement(
            target,
            "ALTER TABLE",
            lambda session: _rename_columns(session, target, changes),
            message=message,
            rearranges=True,
        )
        return
    of_properties = [each for each in changes if each["change"] in {"set", "unset"}]
    attributes = attribute_changes(of_properties)

    def alter(session: Session) -> None:
        set_attributes(session, target.path, attributes)
        for each in changes:
            if each not in of_properties:
                _change_column(session, target, each)

    commit_statement(target, "ALTER TABLE", alter, message=message)


def _summary(changes: Sequence[Change]) -> str:
    """Changes, for the message of a commit: `ADD COLUMN rain, k`."""
    kind = str(changes[0]["change"])
    if kind in {"set", "unset"}:
        names = ", ".join(str(each["property"]) for each in changes)
        return f"{kind.upper()} TBLPROPERTIES {names}"
    names = ", ".join(".".join(each.get("column") or ["?"]) for each in changes)
    if kind == "rename column":
        return f"RENAME COLUMN {names} TO {', '.join(str(each['to']) for each in changes)}"
    return f"{kind.upper()} {names}" if kind.endswith("column") else f"ALTER COLUMN {names}"


def _change_column(session: Session, target: Target, change: Change) -> None:
    name = _column(change)
    match change["change"]:
        case "comment":
            _set_comment(session, target, name, change["comment"])
        case "add column":
            _add_column(session, target, name, change)
        case "drop column":
            _drop_column(session, target, name, if_exists=bool(change.get("ifExists")))
        case "type":
            raise InvalidInputError(
                f"column {name!r} cannot become {change['type']}: the type of an array stays; add a"
                " column, and fill it from this one"
            )
        case "nullability":
            raise InvalidInputError(
                f"column {name!r}: NOT NULL is nothing that an array can promise"
            )
        case _:
            raise InvalidInputError(
                f"column {name!r}: {change.get('text') or change['change']} is not possible with"
                " arrays"
            )


def _column(change: Change) -> str:
    parts = list(change.get("column") or ["?"])
    if len(parts) != 1:
        raise InvalidInputError(f"{'.'.join(parts)!r} is a field in a column, which cannot change")
    return str(parts[0])


def _table(session: Session, target: Target) -> Grid:
    """The columns of the table. Raises InvalidInputError for an array, which has one of its own."""
    if target.is_array:
        raise InvalidInputError(f"{target.name} is an array: name its group, which has the columns")
    return choose_grid(Opened(session).describe(str(target.path)), None)


def _require_variable(grid: Grid, name: str, doing: str) -> None:
    if grid.dimension(name) is not None:
        raise InvalidInputError(
            f"{name!r} is a dimension, which {doing}: the variables are"
            f" {', '.join(each.name for each in grid.variables)}"
        )


def _rename_columns(session: Session, target: Target, changes: Sequence[Change]) -> None:
    grid = _table(session, target)
    for each in changes:
        old, new = _column(each), str(each["to"])
        _require_variable(grid, old, "keeps its name in all arrays")
        session.move(target.path.child(old), _new_child(session, target.path, new))


def _new_child(session: Session, group: NodePath, name: str) -> NodePath:
    if "/" in name or not name.strip("."):
        raise InvalidInputError(f"column {name!r} cannot be the name of an array")
    path = group.child(name)
    if session.find_node(path) is not None:
        raise InvalidInputError(f"there is a group or an array {name!r} already")
    return path


def _set_comment(session: Session, target: Target, name: str, comment: str | None) -> None:
    path = target.path
    group = path.parent if target.is_array and path.parent is not None else path
    node = session.find_node(group.child(name))
    if node is None or node.array is None:
        raise InvalidInputError(f"{name!r} is a dimension without coordinate, and has no comment")
    units = attributes_of(node).get("units")
    named = long_name(comment, units if isinstance(units, str) else None)
    set_attributes(session, group.child(name), {"long_name": named})


def _drop_column(session: Session, target: Target, name: str, *, if_exists: bool) -> None:
    grid = _table(session, target)
    _require_variable(grid, name, "all columns need")
    if name not in grid.columns:
        if if_exists:
            return
        raise InvalidInputError(f"no column {name!r}; the columns are {', '.join(grid.columns)}")
    if len(grid.variables) == 1:
        raise InvalidInputError(f"{name!r} is the last variable: DROP TABLE drops them all")
    session.delete_node(target.path.child(name))


def _add_column(session: Session, target: Target, name: str, change: Change) -> None:
    for said, what in (("position", "a position"), ("default", "a default")):
        if change.get(said):
            raise InvalidInputError(f"column {name!r} is given {what}, which arrays do not have")
    if not change["nullable"]:
        raise InvalidInputError(f"column {name!r} is NOT NULL, but has no values yet")
    grid = _table(session, target)
    path = _new_child(session, target.path, name)
    named = long_name(change.get("comment"), None)
    attrs = {"long_name": named} if named else None
    array = new_array(name, _type(change["type"]), is_coordinate=False, attrs=attrs)
    session.set_node(path, _new_document(target, grid, array))


def _type(text: str) -> DataType:
    return StructType.fromJson(
        {
            "type": "struct",
            "fields": [{"name": "x", "type": json.loads(text), "nullable": True, "metadata": {}}],
        }
    )["x"].dataType


def _new_document(target: Target, grid: Grid, array: ArrayDescription) -> bytes:
    """The document of an array like the others of a table."""
    dims = tuple(each.name for each in grid.dimensions)
    position = stored_column(new_array("position", LongType(), is_coordinate=True))
    arrays = Arrays(
        group=str(target.path),
        creates=False,
        dimensions=tuple(
            KnownDimension(
                name=each.name, column=position, has_coordinate=False,
                values=np.zeros(0, dtype=np.int64), size=each.size, is_new=False,
            )
            for each in grid.dimensions
        ),
        coordinates=(None,) * len(dims),
        variables=(VariableTarget(array=array, column=stored_column(array), is_new=True),),
        append_dim=dims[0],
        growth=Growth(grows=False, touches=True),
        replaced=(),
    )  # fmt: skip
    nothing = {dim: np.zeros(0, dtype=np.int64) for dim in dims}
    layout = plan_layout(arrays, {}, nothing, NewArrays(chunks=_chunks(grid, dims)))
    return layout.arrays[0].document


def _chunks(grid: Grid, dims: Sequence[str]) -> dict[str, int]:
    for each in grid.variables:
        if set(each.dims) == set(dims):
            return dict(zip(each.dims, each.chunks, strict=True))
    return {}


# DROP TABLE, RENAME TO


def _drop_table(target: Target) -> None:
    commit_statement(target, "DROP TABLE", lambda session: _drop_arrays(session, target))


def _drop_arrays(session: Session, target: Target) -> None:
    path = target.path
    if target.is_array:
        _require_no_coordinate(session, path)
        session.delete_node(path)
        return
    children = [path.child(name) for name in session.child_names(path)]
    groups = [each for each in children if session.node(each).array is None]
    if not groups and path != ROOT:
        session.delete_node(path)
        return
    for each in children:
        if each not in groups:
            session.delete_node(each)


def _require_no_coordinate(session: Session, path: NodePath) -> None:
    group = path.parent or ROOT
    arrays = Opened(session).describe(str(group)).arrays
    users = [n for n, each in arrays.items() if n != path.name and path.name in each.dims]
    if users:
        raise InvalidInputError(
            f"{path.name!r} is the coordinate of a dimension of {', '.join(users)}, and stays"
        )


def _rename_table(settings: Settings, parts: tuple[str, ...], to: tuple[str, ...]) -> None:
    target = find_there(settings, parts)
    if target.path == ROOT:
        raise InvalidInputError("the name of a repository is that of its folder, which stays")
    if target.is_array:
        _require_no_coordinate(target.repository.writable_session(target.branch), target.path)
    new = _new_name(settings, target, parts, to)
    if new.there:
        raise AlreadyExistsError(f"there is {new.name} already", kind=TAKEN)
    if new.location != target.location or new.branch != target.branch:
        raise InvalidInputError(
            f"a table stays in its repository and on its branch: {target.name} cannot become"
            f" {new.name} on branch {new.branch!r}"
        )
    commit_statement(
        target,
        "ALTER TABLE",
        lambda session: session.move(target.path, new.path),
        message=f"ALTER TABLE {target.name} RENAME TO {new.name}",
        rearranges=True,
    )


def _new_name(
    settings: Settings, target: Target, parts: tuple[str, ...], to: tuple[str, ...]
) -> Target:
    """A name of one part stays in the namespace; another one may begin with the catalog."""
    if len(to) == 1:
        beside = [part for part in str(target.path.parent or ROOT).split("/") if part]
        path = new_path([*beside, *to])
        session = target.repository.writable_session(target.branch)
        return replace(target, path=path, there=session.find_node(path) is not None)
    if to[0] == settings.name and parts[0] != settings.name:
        to = to[1:]
    try:
        return find_target(settings, to, branch=target.branch)
    except NoSuchNameError as error:  # it is the other name that Spark would say is missing
        raise InvalidInputError(error.message) from None
