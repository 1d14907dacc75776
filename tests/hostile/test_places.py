"""A repository from a stranger cannot make its reader touch files or hosts of their choice."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

import frazil
from frazil.errors import IcechunkError, InvalidInputError, ObjectNotFoundError, StorageError
from frazil.format.chunk_refs import Inline, Native, Virtual
from frazil.ids import ChunkId
from frazil.objectstore.remote.redirect import find_target, may_lead
from frazil.virtual import VirtualChunkAccess, VirtualReads
from tests.hostile.listening import SECRET, Listener, listener
from tests.hostile.strangers import config_of, first_chunk, stranger, with_info

LOCAL = frazil.credentials.LocalFileSystemAccess
WEB = frazil.credentials.HttpAccess
KEYS = frazil.s3_credentials(access_key_id="mine", secret_access_key="wholly mine")  # noqa: S106 - none


@pytest.fixture
def inside() -> Iterator[Listener]:
    """A host that only this machine can reach, and nobody authorized."""
    with listener("127.0.0.2") as found:
        yield found


@pytest.fixture
def good() -> Iterator[Listener]:
    with listener("127.0.0.1") as found:
        yield found


def http_container(url: str) -> dict[str, frazil.VirtualChunkContainer]:
    store = frazil.ObjectStoreConfig.Http({"allow_http": "true"})
    return {url: frazil.VirtualChunkContainer(url, store)}


def local_container(folder: Path) -> dict[str, frazil.VirtualChunkContainer]:
    url = f"file://{folder}/"
    store = frazil.ObjectStoreConfig.LocalFileSystem(str(folder))
    return {url: frazil.VirtualChunkContainer(url, store, "data")}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """One that the reader authorizes, and a secret file beside it."""
    data, secret = tmp_path / "data", tmp_path / "secret"
    data.mkdir()
    (data / "open").write_bytes(b"open to all")
    secret.write_bytes(SECRET)
    return data, secret


def test_a_location_that_nobody_authorized_is_not_read(
    tmp_path: Path, folders: tuple[Path, Path], inside: Listener
) -> None:
    data, secret = folders
    places = {
        f"file://{secret}": local_container(tmp_path),
        f"{inside.url}/secret": http_container(f"{inside.url}/"),
    }
    for number, (location, containers) in enumerate(places.items()):
        root = stranger(
            tmp_path / str(number), Virtual(location, 0, 5), config=config_of(containers)
        )
        for access in (
            None,
            {f"file://{data}/": LOCAL},
            VirtualChunkAccess(default_containers=True),
        ):
            with pytest.raises(InvalidInputError) as caught:
                first_chunk(root, access)
            assert caught.value.kind == "unauthorized-virtual-chunk-container"
            assert f"resolves to the url prefix {next(iter(containers))}" in str(caught.value)
    assert inside.asked == []
    for number, containers in enumerate(places.values()):
        leave = dict.fromkeys(containers, WEB if "http" in next(iter(containers)) else LOCAL)
        assert first_chunk(tmp_path / str(number), leave) == SECRET[:5]  # it is there to be read
    assert inside.asked


LEADS_OUT = InvalidInputError, "no-container-for-virtual-chunk", "no virtual chunk container"
ODD = InvalidInputError, "invalid-virtual-ref", "path segments"
MISSING = StorageError, "virtual-chunk-fetch", "object not found"  # inside, and not there
SPELLINGS = {
    "{data}/../secret": LEADS_OUT,
    "{data}/%2e%2e/secret": LEADS_OUT,
    "{data}/%2E%2E%2Fsecret": ODD,
    "{data}/..%2fsecret": ODD,
    "{data}/x/../../secret": LEADS_OUT,
    "{data}/.%2e/secret": LEADS_OUT,
    "{data}/\t.\t./secret": LEADS_OUT,
    "{data}\\..\\secret": LEADS_OUT,
    "{data}/%252e%252e/secret": MISSING,
    "{data}//../secret": MISSING,
    "{data}/open/../../secret": LEADS_OUT,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("start", ["file://", "vcc://data"])
def test_no_spelling_of_a_location_leads_out_of_its_container(
    tmp_path: Path, folders: tuple[Path, Path], spelling: str, start: str
) -> None:
    data, _ = folders
    inner = "" if start.startswith("vcc") else str(data)
    containers = local_container(data)
    leave = dict.fromkeys(containers, LOCAL)

    def read(name: str, text: str) -> bytes:
        location = start + text.format(data=inner)
        root = stranger(tmp_path / name, Virtual(location, 0, 5), config=config_of(containers))
        return first_chunk(root, leave)

    error, kind, says = SPELLINGS[spelling]
    with pytest.raises(error, match=says) as caught:
        read("r", spelling)
    assert getattr(caught.value, "kind", "") == kind
    assert read("fine", "{data}/open") == b"open "
    named = start.startswith("vcc") and "\\" in spelling  # there, part of a container's name
    if error is InvalidInputError and "%2" not in spelling and not named:  # out, and in again
        assert read("back", spelling.replace("secret", "data/open")) == b"open "


def test_links_in_authorized_folders_do_not_lead_out(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    data, secret = folders
    (data / "link").symlink_to(secret)
    (data / "folder").symlink_to(secret.parent)
    containers = local_container(data)
    for name in ("link", "folder/secret"):
        location = f"file://{data}/{name}"
        root = tmp_path / quote(name, safe="")
        stranger(root, Virtual(location, 0, 5), config=config_of(containers))
        with pytest.raises(InvalidInputError) as caught:
            first_chunk(root, dict.fromkeys(containers, LOCAL))
        assert caught.value.kind == "unauthorized-virtual-chunk-container"
        assert "is a link that points out of" in str(caught.value)
    (data / "alias").symlink_to(data / "open")  # a link that stays inside
    location = f"file://{data}/alias"
    stranger(tmp_path / "fine", Virtual(location, 0, 4), config=config_of(containers))
    assert first_chunk(tmp_path / "fine", dict.fromkeys(containers, LOCAL)) == b"open"


NOT_FOLLOWED = "is a symbolic link, which is not followed"


def test_links_in_a_repository_are_not_followed(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    _, secret = folders
    chunk = ChunkId(bytes(12))
    root = stranger(tmp_path / "file", Native(chunk, 0, 5))
    (root / "chunks" / str(chunk)).symlink_to(secret)
    with pytest.raises(StorageError, match=NOT_FOLLOWED):
        first_chunk(root)
    (root / "chunks" / str(chunk)).unlink()
    (root / "chunks" / str(chunk)).write_bytes(SECRET)
    assert first_chunk(root) == SECRET[:5]  # the same, as a file
    other = stranger(tmp_path / "folder", Native(chunk, 0, 5))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / str(chunk)).write_bytes(SECRET)
    for each in (other / "chunks").iterdir():
        each.unlink()
    (other / "chunks").rmdir()
    (other / "chunks").symlink_to(outside)
    with pytest.raises(StorageError, match=NOT_FOLLOWED):
        first_chunk(other)
    (other / "chunks").unlink()
    outside.rename(other / "chunks")
    assert first_chunk(other) == SECRET[:5]
    for name in ("repo", "snapshots"):
        third = stranger(tmp_path / f"{name}-third", Inline(b"x"))
        (third / name).rename(tmp_path / f"{name}-moved")
        (third / name).symlink_to(tmp_path / f"{name}-moved")
        with pytest.raises(StorageError, match=NOT_FOLLOWED):
            first_chunk(third)
        (third / name).unlink()
        (tmp_path / f"{name}-moved").rename(third / name)
        assert first_chunk(third) == b"x"


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(tmp_path: Path) -> None:
    chunk = ChunkId(bytes(12))
    root = stranger(tmp_path / "r", Native(chunk, 0, 5))
    os.mkfifo(root / "chunks" / str(chunk))
    caught: list[Exception] = []

    def read() -> None:
        try:
            first_chunk(root)
        except IcechunkError as error:
            caught.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    (error,) = caught
    assert isinstance(error, ObjectNotFoundError)
    assert str(chunk) in str(error)
    (root / "chunks" / str(chunk)).unlink()
    (root / "chunks" / str(chunk)).write_bytes(b"a file")
    assert first_chunk(root) == b"a fil"


@pytest.mark.parametrize("reader", ["config", "endpoints"])
def test_a_stored_container_cannot_choose_the_server_of_a_bucket(
    tmp_path: Path, inside: Listener, reader: str
) -> None:
    """Or credentials for a bucket would be sent to whoever wrote the repository."""
    options = frazil.S3Options(
        region="us-east-1", endpoint_url=inside.url, allow_http=True, force_path_style=True
    )
    store = frazil.ObjectStoreConfig.S3Compatible(options)
    config = config_of({"s3://bucket/": frazil.VirtualChunkContainer("s3://bucket/", store)})
    root = stranger(tmp_path / "r", Virtual("s3://bucket/key", 0, 5), config=config)
    access = frazil.containers_credentials({"s3://bucket/": KEYS})
    with pytest.raises(InvalidInputError, match=inside.url) as caught:
        first_chunk(root, access)
    assert caught.value.kind == "unauthorized-virtual-chunk-container"
    assert inside.asked == []
    # Whoever says so themselves is taken at their word.
    if reader == "config":
        assert first_chunk(root, access, config=config) == SECRET[:5]
    else:
        trusting = VirtualChunkAccess(access, endpoints=[inside.url])
        assert first_chunk(root, trusting) == SECRET[:5]
    assert inside.asked == ["/bucket/key"]


@pytest.mark.parametrize(
    ("prefix", "store"),
    [
        ("gs://b/", frazil.ObjectStoreConfig.Gcs({"google_base_url": "https://evil.example"})),
        ("gs://b/", frazil.ObjectStoreConfig.Gcs({"proxy_url": "http://evil.example"})),
        ("az://c/", frazil.ObjectStoreConfig.Azure({"account": "a", "endpoint": "http://evil"})),
        ("az://c/", frazil.ObjectStoreConfig.Azure({"account": "a", "use_emulator": "true"})),
        ("https://good.example/", frazil.ObjectStoreConfig.Http({"proxy_url": "http://evil"})),
        (
            "https://good.example/",
            frazil.ObjectStoreConfig.Http({"allow_invalid_certificates": "true"}),
        ),
        ("https://good.example/", frazil.ObjectStoreConfig.Http({}, {"Host": "inside"})),
        (
            "s3://b/",
            frazil.ObjectStoreConfig.S3(
                frazil.S3Options(endpoint_url="https://ec2-1-2-3-4.compute-1.amazonaws.com")
            ),
        ),
        (
            "s3://b/",
            frazil.ObjectStoreConfig.S3(
                frazil.S3Options(endpoint_url="https://s3.us-east-1.amazonaws.com.evil.example")
            ),
        ),
        (
            "s3://b/",
            frazil.ObjectStoreConfig.S3(
                frazil.S3Options(endpoint_url="http://s3.us-east-1.amazonaws.com", allow_http=True)
            ),
        ),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_options_that_lead_elsewhere_need_leave(
    tmp_path: Path, prefix: str, store: frazil.AnyObjectStoreConfig
) -> None:
    credentials = {
        "gs": frazil.gcs_credentials(anonymous=True),
        "az": frazil.azure_credentials(from_env=True),
        "https": WEB,
        "s3": KEYS,
    }[prefix.partition(":")[0]]
    config = config_of({prefix: frazil.VirtualChunkContainer(prefix, store)})
    root = stranger(tmp_path / "r", Virtual(prefix + "key", 0, 5), config=config)
    access = frazil.containers_credentials({prefix: credentials})
    with pytest.raises(InvalidInputError, match="which you have not authorized") as caught:
        first_chunk(root, access)
    assert caught.value.kind == "unauthorized-virtual-chunk-container"
    storage = frazil.local_filesystem_storage(str(root))
    refused = frazil.Repository.open(storage, authorize_virtual_chunk_access=access)
    assert [each.authorized for each in refused.virtual_containers()] == [False]
    # A reader who gives the same container has authorized it; nothing is asked of it here.
    trusted = frazil.Repository.open(storage, config, access)
    assert [each.authorized for each in trusted.virtual_containers()] == [True]


def test_a_redirect_of_a_web_server_cannot_lead_inside(
    tmp_path: Path, good: Listener, inside: Listener
) -> None:
    """To another host of a network, that is; to itself it may."""
    good.redirects["/a"] = f"{inside.url}/secret"
    good.redirects["/b"] = "/c"
    good.redirects["/d"] = "/a"
    good.redirects["/e"] = "file:///etc/passwd"
    containers = http_container(f"{good.url}/")
    access = dict.fromkeys(containers, WEB)
    for name in "ade":
        root = tmp_path / name
        stranger(root, Virtual(f"{good.url}/{name}", 0, 5), config=config_of(containers))
        with pytest.raises(StorageError, match="redirects to"):
            first_chunk(root, access)
    assert inside.asked == []
    root = stranger(tmp_path / "b", Virtual(f"{good.url}/b", 0, 5), config=config_of(containers))
    assert first_chunk(root, access) == SECRET[:5]
    # The check can fail: without it the inner host is asked.
    careless = VirtualChunkAccess(access, reads=VirtualReads(check_redirects=False))
    first_chunk(tmp_path / "a", careless)
    assert inside.asked


INNER, SCHEME = "is not a public address", "unknown scheme"


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("{inside}/x", INNER),
        ("http+icechunk://127.0.0.2:1/x", INNER),
        ("s3://bucket/x?region=r&endpoint_url={inside}", INNER),
        ("http://169.254.169.254/latest/meta-data/", INNER),
        ("http://[::ffff:169.254.169.254]/", INNER),
        ("http://2852039166/", INNER),
        ("http://10.0.0.1/", INNER),
        ("http://[fd00::1]/", INNER),
        ("http://0.0.0.0:1/", INNER),
        ("file:///etc/passwd", SCHEME),
        ("r2://bucket/x?account_id=evil.example/", "expected letters and digits"),
        ("gopher://127.0.0.2/", SCHEME),
    ],
)
def test_redirect_storage_cannot_lead_inside(
    good: Listener, inside: Listener, target: str, says: str
) -> None:
    good.redirects["/repo"] = target.format(inside=inside.url)
    with pytest.raises(StorageError, match=says) as caught:
        find_target(f"{good.url}/repo")
    assert caught.value.kind == "bad-redirect"
    assert inside.asked == []
    good.redirects["/repo"] = f"{good.url}/next"  # the same host may be led to
    good.redirects["/next"] = "s3://bucket/x?region=r"
    assert find_target(f"{good.url}/repo").location == "s3://bucket/x"


def test_addresses_for_everybody_may_be_led_to() -> None:
    assert may_lead("http://127.0.0.1/", "http://8.8.8.8/x")
    assert may_lead("http://10.1.2.3/", "http://10.1.2.3:99/x")
    assert may_lead("http://localhost/", "http://127.0.0.1/x")
    assert not may_lead("http://8.8.8.8/", "http://127.0.0.1/")
    assert not may_lead("http://127.0.0.1/", "http://127.0.0.2/")
    assert not may_lead("http://8.8.8.8/", "http://100.64.0.1/")
    assert not may_lead("http://8.8.8.8/", "http://[64:ff9b::a9fe:a9fe]/")
    assert not may_lead("http://8.8.8.8/", "file:///x")


def test_names_in_the_log_of_operations_do_not_lead_out_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(SECRET)
    for number, name in enumerate(("../../outside", "/etc/passwd", "..", "a/../../../outside", "")):
        root = stranger(tmp_path / f"r{number}", Inline(b"x"))
        with_info(root, before_updates=name)
        opened = frazil.Repository.open(frazil.local_filesystem_storage(str(root)))
        with pytest.raises(InvalidInputError, match="segment") as caught:
            list(opened.ops_log())
        assert caught.value.kind == "invalid-key"
    root = stranger(tmp_path / "fine", Inline(b"x"))
    (backup,) = (root / "overwritten").iterdir()
    with_info(root, before_updates=backup.name)
    opened = frazil.Repository.open(frazil.local_filesystem_storage(str(root)))
    assert len(list(opened.ops_log())) == 3  # a name of the repository itself is followed
