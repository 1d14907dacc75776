"""Endpoints under /api. Every answer is JSON, except for images."""

from collections.abc import Callable

from starlette.responses import Response

from frazil.errors import InvalidInputError, StorageError
from frazil.web import chunk_changes as differences
from frazil.web import commits, trees
from frazil.web.axes import UNREADABLE
from frazil.web.chunk_changes import chunk_changes
from frazil.web.chunk_maps import chunk_map
from frazil.web.chunk_tables import chunk_facts, chunk_sums
from frazil.web.explored import DEFAULT, Explored
from frazil.web.exports import as_csv, as_netcdf, has_netcdf
from frazil.web.http import Asked, json_answer, png_answer
from frazil.web.images import NO_PICTURE
from frazil.web.overview import overview
from frazil.web.previews import preview
from frazil.web.queries import table_facts
from frazil.web.trees import metadata_change

type Endpoint = Callable[[Explored, Asked], Response]


def repository(explored: Explored, asked: Asked) -> Response:
    del asked
    return json_answer(commits.repository_facts(explored))


def overview_facts(explored: Explored, asked: Asked) -> Response:
    return json_answer(overview(explored, explored.snapshot(asked.text("at", DEFAULT))))


def commit_list(explored: Explored, asked: Asked) -> Response:
    return json_answer(commits.commit_page(explored, *asked.page(200)))


def commit(explored: Explored, asked: Asked) -> Response:
    return json_answer(commits.commit_facts(explored, asked.text("at", DEFAULT)))


def children(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    return json_answer(trees.child_page(explored, snapshot, asked.path(), *asked.page(500)))


def node(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    return json_answer(trees.node_facts(explored, snapshot, asked.path()))


def chunks(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    return json_answer(chunk_sums(explored, snapshot, asked.path()))


def chunk(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    index = asked.numbers("index") or ()
    return json_answer(chunk_facts(explored, snapshot, asked.path(), index))


def chunk_map_facts(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    return json_answer(chunk_map(explored, snapshot, asked.path(), asked).facts())


def chunk_map_picture(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    return png_answer(chunk_map(explored, snapshot, asked.path(), asked).png())


def preview_facts(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    try:
        facts = preview(explored, snapshot, asked.path(), asked).facts(asked)
        return json_answer({**facts, "has_netcdf": has_netcdf()})
    except StorageError as error:
        if error.kind != UNREADABLE:
            raise
        # Nothing unusual: virtual chunks that may not be read here, a codec that is not installed.
        return json_answer({"problem": str(error)})


def preview_picture(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    try:
        return png_answer(preview(explored, snapshot, asked.path(), asked).png(asked))
    except (StorageError, InvalidInputError):
        if asked.values.get("size") != "small":
            raise
        return png_answer(NO_PICTURE)  # of a page of thumbnails, some may have none


def preview_numbers(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    data = preview(explored, snapshot, asked.path(), asked).binary(asked)
    return Response(data, media_type="application/octet-stream")


def preview_csv(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    found = preview(explored, snapshot, asked.path(), asked)
    return Response(as_csv(found, asked.path().name), media_type="text/csv")


def preview_netcdf(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    found = preview(explored, snapshot, asked.path(), asked)
    data = as_netcdf(explored, snapshot, found, asked.path().name)
    return Response(data, media_type="application/x-netcdf")


def diff(explored: Explored, asked: Asked) -> Response:
    start, end = (explored.snapshot(asked.text(name)) for name in ("from", "to"))
    return json_answer(differences.difference(explored, start, end))


def diff_chunks(explored: Explored, asked: Asked) -> Response:
    start, end = (explored.snapshot(asked.text(name)) for name in ("from", "to"))
    found = chunk_changes(explored, start, end, asked.path())
    nodes = (explored.session(each).find_node(asked.path()) for each in (end, start))
    names = next((each.array.dimension_names for each in nodes if each and each.array), None)
    return json_answer({**found.page(*asked.page(200)), "dimension_names": names})


def diff_metadata(explored: Explored, asked: Asked) -> Response:
    start, end = (explored.snapshot(asked.text(name)) for name in ("from", "to"))
    return json_answer(metadata_change(explored, start, end, asked.path()))


def operation_list(explored: Explored, asked: Asked) -> Response:
    return json_answer(commits.operation_page(explored, *asked.page(200)))


def storage(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    facts = differences.storage_facts(explored, snapshot)
    if asked.text("count", "") == "all":
        facts["counted"] = differences.count_storage(explored)
    return json_answer(facts)


def sql_tables(explored: Explored, asked: Asked) -> Response:
    return json_answer(table_facts(explored, explored.snapshot(asked.text("at", DEFAULT))))


def search(explored: Explored, asked: Asked) -> Response:
    snapshot = explored.snapshot(asked.text("at", DEFAULT))
    return json_answer(trees.search(explored, snapshot, asked.text("q", "")))


ENDPOINTS: dict[str, Endpoint] = {
    "repository": repository,
    "overview": overview_facts,
    "commits": commit_list,
    "commit": commit,
    "children": children,
    "node": node,
    "chunks": chunks,
    "chunk": chunk,
    "chunk-map": chunk_map_facts,
    "chunk-map.png": chunk_map_picture,
    "preview": preview_facts,
    "preview.png": preview_picture,
    "preview.bin": preview_numbers,
    "preview.csv": preview_csv,
    "preview.nc": preview_netcdf,
    "diff": diff,
    "diff/chunks": diff_chunks,
    "diff/metadata": diff_metadata,
    "operations": operation_list,
    "storage": storage,
    "search": search,
    "sql/tables": sql_tables,
}
