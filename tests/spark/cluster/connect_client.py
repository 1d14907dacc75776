"""What a client of a Connect server does on a cluster; run by test_connect.py.

Prints one line of JSON: what was found.
"""

import json
import sys
import warnings

from pyspark.sql import SparkSession

from tests.spark.cluster import work


def main(url: str, written: str, ingested: str, files: str) -> None:
    warnings.simplefilter("ignore")
    spark = SparkSession.builder.remote(url).getOrCreate()
    found: dict[str, object] = {"connect": type(spark).__module__}
    found["written"] = work.write_shuffled(spark, work.Folder(written)).committed
    found["rows"] = work.read_rows(spark, work.Folder(written)).num_rows
    found["ingested"] = work.ingest_files(spark, files, work.Folder(ingested)).committed
    print(json.dumps(found), flush=True)  # noqa: T201 -- what the test reads
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
