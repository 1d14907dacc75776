"""The `config.yaml` of A2h to V1pre2 as the JSON that version 2 stores. FORMATS: 10.

Only A2i differs in form: containers of virtual chunks are a list, each with its options in it.
Names that meant something then and nothing now are passed on; nobody looks at them.
"""

from collections.abc import Buffer
from typing import Any

from frazil.flatbuf.flexbuffers import Json
from frazil.format.config_codec import decode_config_yaml

_STORES = {
    "S3": "s3_compatible",
    "GoogleCloudStorage": "gcs",
    "Azure": "azure",
    "Tigris": "tigris",
    "LocalFileSystem": "local_file_system",
}
_S3_OPTIONS = ("region", "endpoint_url", "anonymous", "allow_http")


def decode_old_config(data: Buffer) -> Json:
    found: Any = decode_config_yaml(data)
    match found:
        case {"virtual_chunk_containers": list() as listed}:
            found["virtual_chunk_containers"] = dict(
                _container(each) for each in listed if isinstance(each, dict)
            )
    config: Json = found
    return config


def _container(given: dict[str, Any]) -> tuple[str, Json]:
    prefix = str(given.get("prefix", ""))
    kind = _STORES.get(str(given.get("object_store")), "s3_compatible")
    options: Json = {}
    if kind in {"s3_compatible", "tigris"}:
        options = {name: given[name] for name in _S3_OPTIONS if name in given}
    elif kind == "local_file_system":
        options = prefix
    store: dict[str, Json] = {kind: options}
    return prefix, {"name": given.get("name"), "url_prefix": prefix, "store": store}
