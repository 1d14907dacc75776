"""Whatever a reference says, nothing is read but what is in an authorized container."""

from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.files.virtual_access import VirtualAccess, VirtualChunkAccess
from frazil.engine.files.virtual_chunks import VirtualChunks
from frazil.errors import InvalidInputError
from frazil.format.storage_config import ObjectStoreConfig, S3Options, VirtualChunkContainer
from frazil.objectstore.credentials import (
    AnyCredential,
    CredentialsForS3,
    HttpAccess,
    LocalFileSystemAccess,
    S3AnonymousCredentials,
)
from frazil.objectstore.pool import Pool

ALLOWED: dict[str, tuple[ObjectStoreConfig, AnyCredential]] = {
    "file:///data/in/": (ObjectStoreConfig.LocalFileSystem("/"), LocalFileSystemAccess()),
    "http://good/in/": (ObjectStoreConfig.Http(), HttpAccess()),
    "s3://good/in/": (
        ObjectStoreConfig.S3(S3Options("us-east-1")),
        CredentialsForS3(S3AnonymousCredentials()),
    ),
}
CONTAINERS = {
    prefix: VirtualChunkContainer(prefix, store, prefix.partition(":")[0])
    for prefix, (store, _) in ALLOWED.items()
}
CONTAINERS["closed"] = VirtualChunkContainer("http://good/in/closed/", ObjectStoreConfig.Http())
LEAVE = VirtualChunkAccess({prefix: given for prefix, (_, given) in ALLOWED.items()})
VIRTUAL = VirtualChunks(VirtualAccess.of(CONTAINERS, LEAVE), Pool(1))

PIECES = st.sampled_from([
    "file:///data/in/", "http://good/in/", "s3://good/in/", "vcc://file/", "vcc://http/",
    "vcc://s3/", "http://good", "file:", "//", "/", "..", ".", "%2e", "%2E", "%2f", "%5c", "\\",
    "@evil", ":80", "closed", "in", "data", "?", "#", "%", "%00", "%ff", "a", "é", " ", "\t",
])  # fmt: skip
LOCATIONS = st.lists(PIECES, min_size=1, max_size=9).map("".join) | st.text()


@given(LOCATIONS)
def test_what_is_resolved_is_inside(location: str) -> None:
    try:
        source = VIRTUAL.resolve(location)
    except InvalidInputError:
        return
    place, prefix = source.place, source.grant.container.url_prefix
    assert prefix in ALLOWED
    store, key = (f"{place.scheme}://{place.authority}/", place.key)
    assert (store + key).startswith(prefix)
    if place.scheme != "s3":  # where a name is just a name
        segments = key.split("/")
        assert not {".", ".."}.intersection(segments)
    if place.scheme == "http":
        assert not key.startswith("in/closed/")
