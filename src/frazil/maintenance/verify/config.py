"""The stored configuration."""

from frazil.errors import FormatError, IcechunkError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config import RepositoryConfig
from frazil.format.config_codec import decode_config
from frazil.format.containers import Containers, repaired, require_container
from frazil.maintenance.verify.problems import Problem, problem


def check_config(file: str, stored: Json) -> list[Problem]:
    try:
        config = decode_config(stored)
    except FormatError as error:
        return [problem("config-invalid", file, error.message)]
    problems = []
    for prefix, container in (config.virtual_chunk_containers or {}).items():
        try:
            require_container(repaired(container))
        except InvalidInputError as error:
            problems.append(problem("container-invalid", file, f"{prefix}: {error.message}"))
    return problems


def containers_of(stored: Json | None) -> Containers | None:
    """Containers that chunks can be in; None if they are not known."""
    try:
        config = RepositoryConfig() if stored is None else decode_config(stored)
    except IcechunkError:
        return None
    usable = []
    for container in map(repaired, (config.virtual_chunk_containers or {}).values()):
        try:
            require_container(container)
        except InvalidInputError:
            continue
        usable.append(container)
    return Containers.of(usable)
