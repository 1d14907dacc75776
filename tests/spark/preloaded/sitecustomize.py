"""Python runs this when it starts, if the folder is on its path: tests.spark.preloading.

Every query needs new Python processes of Spark, to plan it and to run it, which are forked by
daemons. If these know the libraries already, the processes need not import them: that is half the
time of a small query.
"""

import gc
import importlib
import os
import sys

LIBRARIES = ("numpy", "pandas", "pyarrow", "zarr", "pyspark.worker", "frazil.spark.io.data_source")

if "pyspark.daemon" in sys.orig_argv:
    for name in LIBRARIES:
        importlib.import_module(name)
    if "FRAZIL_TEST_BOX_BYTES" in os.environ:  # so that few rows are several tasks
        assembly = importlib.import_module("frazil.spark.writing.assembly")
        vars(assembly)["BOX_BYTES"] = int(os.environ["FRAZIL_TEST_BOX_BYTES"])
    gc.collect()
    gc.freeze()  # or each process would copy all of it when it collects garbage
