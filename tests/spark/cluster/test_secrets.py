"""A repository in a bucket: every process of a cluster gets there, and none tells how."""

import base64
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import frazil
from tests.servers.s3 import S3Server
from tests.spark.cluster import work
from tests.spark.cluster.driver import Driver
from tests.spark.cluster.outcomes import assert_written
from tests.spark.cluster.standalone import StandaloneCluster

pytestmark = pytest.mark.spark


def forms(secret: str) -> set[str]:
    """As it is, and inside of anything that was encoded with base64, wherever it began there."""
    shifted = (base64.b64encode(b"x" * shift + secret.encode()).decode() for shift in range(3))
    return {secret, *(text[4:-4] for text in shifted)}


def command_lines(cluster: StandaloneCluster) -> str:
    trees = [process for worker in cluster.workers for process in worker.tree()]
    everyone = [*trees, *psutil.Process().children(recursive=True)]
    lines = []
    for process in everyone:
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            lines.append(" ".join(process.cmdline()))
    return "\n".join(lines)


def test_credentials_reach_the_workers_and_are_written_nowhere(
    cluster: StandaloneCluster, driver: Driver, s3_server: S3Server, event_log: Path
) -> None:
    prefix = s3_server.new_prefix()
    frazil.Repository.create(s3_server.storage(frazil, prefix))
    bucket = work.Bucket(s3_server.arguments(prefix))
    assert driver.run(work.write_shuffled, bucket).committed
    assert_written(bucket)
    assert driver.run(work.read_rows, bucket).num_rows == work.CELLS

    options = {
        "group": "g",
        "variables": "value",
        "storage.region": s3_server.region,
        "storage.endpointUrl": s3_server.endpoint,
        "storage.allowHttp": "true",
        "storage.forcePathStyle": "true",
        "storage.accessKeyId": s3_server.access_key,
        "storage.secretAccessKey": s3_server.secret_key,
    }
    plans = driver.run(work.plan_texts, f"s3://{s3_server.bucket}/{prefix}", options)
    found = [path for path in event_log.rglob("*") if path.is_file()]
    events = [path.read_text(errors="replace") for path in found]
    assert any("SQLExecutionStart" in text and "icechunk" in text for text in events)
    logs = [(driver.folder / "spark.log").read_text(), *cluster.texts().values()]
    told = [*plans, *events, *logs, command_lines(cluster)]
    for secret in forms(s3_server.secret_key):
        assert not [text for text in told if secret in text]
