"""Every option of every format with text that an attacker would write: refused clearly, never run.

Users of SQL write options, arguments of table functions and storage locations.
"""

import base64
import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

import frazil
from frazil.errors import IcechunkError, RepositoryNotFoundError
from frazil.objectstore.credentials import S3FixedCredentials
from frazil.objectstore.remote.s3 import S3Place
from frazil.spark.io.data_source import IcechunkSource
from frazil.spark.io.metadata_functions import ARGUMENTS, read_with_arguments
from frazil.spark.io.stream_commits import STREAM_OPTIONS
from frazil.spark.runtime.storage_options import format_place, open_place, place_of_options
from frazil.spark.runtime.workers import TaskFailedError, unpack_error
from frazil.spark.table.options import OPTIONS
from frazil.spark.writing.options import OPTIONS as WRITE_OPTIONS
from frazil.spark.writing.sink import RowsStreamWriter
from tests.spark.repositories import make_weather
from tests.spark.stream_cases import CHUNK_ROWS, changes_here
from tests.spark.writing_cases import make_repository, table_of, write_here

type Run = Callable[[dict[str, str]], None]

SCHEMA = StructType([StructField("t", LongType()), StructField("v", DoubleType())])
ROWS = [{"t": 1, "v": 2.0}]
STORAGE = [
    "storage.region", "storage.secretHeaders", "storage.networkStreamTimeoutSeconds",
    "storage.anonymous", "storage.secretAccessKey", "storage.endpointUrl",
]  # fmt: skip


class Canary:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def hostile_texts(canary: Path) -> dict[str, str]:
    pickled = pickle.dumps(Canary(canary))
    encoded = base64.b64encode(pickled).decode()
    call = f"__import__('pathlib').Path({str(canary)!r}).touch()"
    function = {"kind": "S3RefreshableCredentials", "pickled_function": encoded}
    place = {"kind": "S3Place", "bucket": "b", "prefix": "p", "credentials": function}
    access = {"kind": "CredentialsForS3", "credentials": function}
    return {
        "pickle": encoded,
        "raw pickle": pickled.decode("latin1"),
        "refreshable place": json.dumps({"place": place, "settings": {"kind": "RemoteSettings"}}),
        "refreshable access": json.dumps(
            {"access": {"kind": "VirtualChunkAccess", "credentials": {"s3://b/": access}}}
        ),
        "python": call,
        "yaml": f"!!python/object/apply:os.system ['touch {canary}']",
        "reduce": json.dumps({"__reduce__": ["os.system", f"touch {canary}"]}),
        "nested call": json.dumps({"lat": {"start": call}}),
        "list": "[1, null, {}]",
        "wrong types": '{"t": [[]], "lat": {"start": {}}, "v": null}',
        "deep": "[" * 100_000,
        "long number": "9" * 5_000,
        "no number": "²",
        "infinite": '{"lat": 1e999, "t": -5}',
        "long": "x" * 1_500_000,
        "control": "a\x00b\x01\n\r\x7f",
        "quotes": "'\"`;-- DROP TABLE t",
        "template": "{0.__class__.__mro__} %(x)n ${jndi:ldap://127.0.0.1/} {{7*7}}",
        "dots": "../../../../etc/passwd",
    }


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A file that only code from an option makes; it can be made."""
    path = tmp_path / "canary"
    pickle.loads(base64.b64decode(hostile_texts(path)["pickle"]))
    path.unlink()  # it was there
    yield path
    assert not path.exists()


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "repo"
    repository = make_weather(path)
    *_, first = repository.ancestry(branch="main")
    repository.create_tag("empty", first.id)
    return path


def read_rows(options: dict[str, str]) -> None:
    source = IcechunkSource({"columns": "lat,t2m", "isel": '{"time": 0}', **options})
    schema = source.schema()
    if isinstance(schema, StructType):  # a table's is text, which only Spark can parse
        reader = source.reader(schema)
        for part in reader.partitions():
            list(reader.read(part))


def read_chunks(options: dict[str, str]) -> None:
    source = IcechunkSource({"mode": "chunks", "variables": "lat", **options})
    source.schema()
    reader = source.reader(StructType(CHUNK_ROWS.fields[:7]))
    for part in reader.partitions():
        list(reader.read(part))


def read_stream(options: dict[str, str]) -> None:
    changes_here(**{"variables": "lat", **options})


def writing(folder: Path, *, stream: bool) -> Run:
    made: list[Path] = []

    def run(options: dict[str, str]) -> None:
        made.append(folder / f"target-{len(made)}")
        make_repository(made[-1])
        told = {"dims": "t", **options, "path": options.get("path") or str(made[-1])}
        if not stream:
            write_here(told.pop("path"), SCHEMA, [ROWS], **told)
            return
        writer = IcechunkSource(told).streamWriter(SCHEMA, overwrite=False)
        assert isinstance(writer, RowsStreamWriter)
        message = writer.write(iter(table_of(SCHEMA, ROWS).to_batches()))
        writer.commit([replace(message, query="a query")], 0)

    return run


def calling(table: str) -> Run:
    def run(options: dict[str, str]) -> None:
        given = tuple(pa.array([options.get(name)]) for name in ARGUMENTS.values())
        assert list(read_with_arguments(table, given, None))

    return run


def require_clear(run: Run, options: dict[str, str], option: str, text: str) -> bool:
    """Whether it worked; if not, the error is one of ours that names the option or what it says."""
    try:
        run({**options, option: text})
    except TaskFailedError as carried:
        packed = re.search(r"<frazil-error (\S+)>", str(carried))
        error = unpack_error(packed[1]) if packed else None
        assert error is not None
    except IcechunkError as own:
        error = own
    else:
        return True
    about_path = option == "path" and ("cannot read" in str(error) or error.kind == MISSING)
    words = [option, text[:20], repr(text[:20])[1:-1], *re.findall(r"\w{3,}", text[:80])]
    named = any(word.lower() in str(error).lower() for word in words)
    assert named or about_path, f"{option} = {text[:80]!r}: {error!r}"
    return False


SHARED = ("path", "authorize", "secretAccess", "secretStorage")
MISSING = RepositoryNotFoundError("").kind
FORMATS: Mapping[str, tuple[str, ...]] = {
    "rows": tuple(OPTIONS),
    "chunks": tuple(name for name in OPTIONS if name != "mode"),
    "stream": (*SHARED, "sel", "variables", *STREAM_OPTIONS),  # the rest is parsed as for rows
    "write": tuple(WRITE_OPTIONS),
    "stream write": (*SHARED, "fill", "codecs", "checkpointLocation", "queryName"),
    "history": tuple(ARGUMENTS.values()),
    "diff": tuple(ARGUMENTS.values()),
}


@pytest.mark.parametrize("format_", FORMATS)
def test_hostile_text_in_any_option_is_refused_clearly_and_runs_nothing(
    format_: str, weather: Path, canary: Path, tmp_path: Path
) -> None:
    runs: dict[str, Run] = {
        "rows": read_rows,
        "chunks": read_chunks,
        "stream": read_stream,
        "write": writing(tmp_path, stream=False),
        "stream write": writing(tmp_path, stream=True),
        "history": calling("history"),
        "diff": calling("diff"),
    }
    run, sound = runs[format_], {} if "write" in format_ else {"path": str(weather)}
    if format_ == "diff":
        sound["from"] = "empty"
    run(dict(sound))  # works without
    texts = hostile_texts(canary)
    worked = 0
    for option in FORMATS[format_]:
        for name, text in texts.items():
            worked += require_clear(run, sound, option, text)
            assert not canary.exists(), f"{option}: {name}"
    assert worked < len(texts) * len(FORMATS[format_]) / 2


@pytest.mark.parametrize("option", STORAGE)
def test_hostile_text_in_storage_options_is_refused_or_taken_as_it_is(
    option: str, canary: Path
) -> None:
    """The store is made, and no request."""
    for text in hostile_texts(canary).values():
        shown: list[object] = []

        def run(options: dict[str, str], shown: list[object] = shown) -> None:
            shown.append(open_place(place_of_options(options)))

        require_clear(run, {"path": "s3://bucket/prefix"}, option, text)
        assert text[:40] not in repr(shown)
        assert not canary.exists()


@pytest.mark.spark
def test_hostile_text_in_sql_is_refused_and_runs_nothing(
    spark: SparkSession, weather: Path, canary: Path
) -> None:
    texts = hostile_texts(canary)

    def create(**options: str) -> None:
        told = ", ".join(f"{name} '{_escaped(text)}'" for name, text in options.items())
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW hostile USING icechunk OPTIONS ({told})")

    create(path=str(weather), variables="lat", authorize='{"file:///data/": "local"}')
    assert spark.table("hostile").count() == 19
    for option, name in (
        ("secretAccess", "pickle"),
        ("secretStorage", "pickle"),
        ("sel", "python"),
    ):
        with pytest.raises(AnalysisException, match=f"(?i){option}"):
            create(path=str(weather), variables="lat", **{option: texts[name]})
        assert not canary.exists()
    history = spark.sql("SELECT * FROM icechunk_history(:path)", {"path": str(weather)})
    assert history.count() > 0
    call = "SELECT * FROM icechunk_history(:path, branch => :branch)"
    with pytest.raises(PySparkException, match="ref not found"):
        spark.sql(call, {"path": str(weather), "branch": texts["pickle"]}).count()
    assert not canary.exists()
    frame = spark.createDataFrame(ROWS, SCHEMA)
    for option in ("secretAccess", "secretStorage"):
        writer = frame.write.format("icechunk").mode("append").option("dims", "t")
        with pytest.raises(PySparkException, match=option):
            writer.option(option, texts["pickle"]).save(str(weather))
        assert not canary.exists()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def test_an_option_never_holds_a_function_and_secrets_are_not_shown(
    s3_place: frazil.Storage,
) -> None:
    text = format_place(s3_place.store)
    assert b"pickled" not in text.secret.encode()
    assert "pickled_function" not in text.secret
    assert json.loads(text.secret)["place"]["credentials"]["kind"] == "S3FixedCredentials"
    assert GIVEN.secret_access_key not in repr(text)
    store = open_place(text)
    assert GIVEN.secret_access_key not in repr(store)
    assert isinstance(store.place, S3Place)
    assert store.place.credentials == S3FixedCredentials(GIVEN)


GIVEN = frazil.S3StaticCredentials("an id", "a secret that is not shown")


def give_credentials() -> frazil.S3StaticCredentials:
    return GIVEN


@pytest.fixture
def s3_place() -> frazil.Storage:
    return frazil.s3_storage(bucket="b", prefix="p", get_credentials=give_credentials)
