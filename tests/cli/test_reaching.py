"""Places that are no folders: how commands reach them, and what must not be typed."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from frazil.cli.storage_flags import Reach, with_storage_options
from tests.cli.conftest import Example
from tests.cli.running import COMMAND, fails, frazil, succeeds
from tests.servers.http_files import HttpServer
from tests.servers.s3 import S3Server


def test_a_repository_on_a_web_server_is_read(
    example: Example, http_server: Callable[[Path], HttpServer]
) -> None:
    url = http_server(example.path).url
    assert succeeds("log", url, "--json").out == succeeds("log", example.path, "--json").out
    assert succeeds("tree", url).out == succeeds("tree", example.path).out
    assert succeeds("dump", f"{url.rstrip('/')}/repo").json
    assert "can only be read" in fails("branch", "create", url, "dev")[0]
    found = {each["what"]: each for each in succeeds("doctor", url, "--json").json}
    assert found["storage"]["found"].endswith("read-only")
    assert found["repository"]["state"] == "fine"


def test_a_bucket_is_used_with_options_and_a_file_of_secrets(
    s3_server: S3Server, example: Example, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets.json"
    secrets.write_text(
        json.dumps(
            {
                "access_key_id": s3_server.access_key,
                "secret_access_key": s3_server.secret_key,
                "region": "us-east-1",
            }
        )
    )
    url = f"s3://{s3_server.bucket}/{s3_server.new_prefix()}"
    reached = ("--endpoint-url", s3_server.endpoint, "--storage-file", secrets)
    succeeds("clone", example.path, url, *reached)
    assert succeeds("log", url, *reached).out == succeeds("log", example.path).out
    succeeds("tag", "create", url, "v2", *reached)
    assert "v2" in succeeds("tag", "list", url, *reached, "--json").json
    succeeds("clone", url, tmp_path / "back", *reached)
    assert "v2" in succeeds("tag", "list", tmp_path / "back", "--json").json


@pytest.mark.parametrize("option", ["--storage-option", "--target-option"])
def test_a_secret_is_refused_and_not_repeated(tmp_path: Path, option: str) -> None:
    for name in ("secret_access_key", "sasToken", "session-token", "bearer_token"):
        answer = frazil("clone", tmp_path, "s3://b/x", option, f"{name}=hush")
        assert answer.code == 2
        assert "secret" in answer.err
        assert "hush" not in answer.err


def test_options_that_cannot_be(tmp_path: Path) -> None:
    assert "NAME=VALUE" in fails("log", "s3://b/x", "--storage-option", "region", code=2)[0]
    (tmp_path / "list.json").write_text("[]")
    for file in ("list.json", "nowhere.json"):
        answer = fails("log", "s3://b/x", "--storage-file", tmp_path / file, code=2)
        assert file in answer[0]
    unknown = fails("log", "s3://b/x", "--storage-option", "regoin=x", "--anonymous")[0]
    assert "did you mean 'storage.region'" in unknown
    assert "ftp://" in fails("log", "ftp://host/x")[0]


def test_the_account_of_azure_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    assert "account" in fails("log", "az://container/x", "--anonymous")[0]


def test_what_a_command_has_itself_is_left_to_it() -> None:
    said = list[object]()

    def command(*, region: bool = False) -> None:
        said.append(region)

    with_storage_options(command)(region=True, storage_option=["endpoint_url=http://127.0.0.1"])
    assert said == [True]


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(Reach({"secret_access_key": "hush"}, {"sas_token": "hush"}))


@pytest.mark.parametrize(
    ("words", "expected"), [("frazil cherr", "cherry-pick"), ("frazil tag cr", "create")]
)
def test_a_shell_completes_commands(words: str, expected: str) -> None:
    environment = os.environ | {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_FRAZIL_COMPLETE": "complete_bash",
    }
    done = subprocess.run([COMMAND], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [expected]


def test_the_scripts_for_shells_are_those_shells_take() -> None:
    script = succeeds("completion", "bash").out
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)  # noqa: S607 -- any bash
