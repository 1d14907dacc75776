"""The blocks of docs/spark-ingest.md run, one after the other."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.servers.http_files import HttpServer

PAGE = Path(__file__).parents[2] / "docs" / "spark-ingest.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.spark


def test_the_blocks_run(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    http_server: Callable[[Path], HttpServer],
) -> None:
    assert len(BLOCKS) == 8
    monkeypatch.chdir(tmp_path)
    names = {"spark": spark, "web": http_server(tmp_path).url}
    exec(compile("\n".join(BLOCKS), str(PAGE), "exec"), names)  # noqa: S102 -- our page
    assert "day-1.nc" in capsys.readouterr().out
