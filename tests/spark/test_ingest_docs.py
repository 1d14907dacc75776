"""The blocks of docs/spark-ingest.md run, one after the other."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "spark-ingest.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.spark


def test_the_blocks_run(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(BLOCKS) == 5
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(BLOCKS), str(PAGE), "exec"), {"spark": spark})  # noqa: S102 -- our page
    assert "day-1.nc" in capsys.readouterr().out
