"""The zarr metadata of a node against what the snapshot says of it."""

from functools import lru_cache

from frazil.errors import InvalidInputError
from frazil.maintenance.verify.problems import Problem, problem
from frazil.repo.zarr_metadata import GroupMetadata, NodeMetadata, parse_node_metadata


@lru_cache(maxsize=10_000)  # most nodes are the same in every snapshot
def parsed(user_data: bytes) -> NodeMetadata | str:
    """The metadata, or an error message."""
    try:
        return parse_node_metadata(user_data)
    except InvalidInputError as error:
        return error.message


def check_group(file: str, path: str, user_data: bytes) -> list[Problem]:
    match parsed(user_data):
        case GroupMetadata():
            return []
        case str(text):
            return [problem("zarr-metadata-invalid", file, text, node=path)]
        case _:
            text = "a group with the zarr metadata of an array"
            return [problem("zarr-node-type", file, text, node=path)]


def check_array(
    file: str,
    path: str,
    user_data: bytes,
    *,
    shape: tuple[int, ...],
    num_chunks: tuple[int, ...] | None,
    names: tuple[str | None, ...] | None,
) -> list[Problem]:
    """`num_chunks` is None where the file has it only by way of unreliable chunk lengths."""
    found = parsed(user_data)
    if isinstance(found, str):
        return [problem("zarr-metadata-invalid", file, found, node=path)]
    if isinstance(found, GroupMetadata):
        text = "an array with the zarr metadata of a group"
        return [problem("zarr-node-type", file, text, node=path)]
    problems = []
    if shape != found.shape:
        text = f"shape {list(shape)}, by zarr {list(found.shape)}"
        problems.append(problem("zarr-shape", file, text, node=path))
    elif num_chunks is not None and num_chunks != found.num_chunks:
        text = f"{list(num_chunks)} chunks, by zarr {list(found.num_chunks)}"
        problems.append(problem("zarr-shape", file, text, node=path))
    if (names or (None,) * len(shape)) != (found.dimension_names or (None,) * len(found.shape)):
        text = f"names {names}, by zarr {found.dimension_names}"
        problems.append(problem("zarr-dimension-names", file, text, node=path))
    return problems
