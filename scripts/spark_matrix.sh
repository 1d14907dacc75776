#!/usr/bin/env bash
# spark_matrix.sh [VERSION...]: what must hold with every PySpark that frazil supports, each in an environment of its own,
# .build/spark-VERSION: filter pushdown (docs/spark-facts.md 1), reading, writing, streams, ingest, pipelines, Connect.
# Writes docs/spark-versions.md. Safe to repeat; it takes minutes for each.
set -euo pipefail
cd "$(dirname "$0")/.."
versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=(4.1 4.2 4.3)
mkdir -p .build

# What frazil and these tests need, without frazil itself: it is taken from src.
requirements='
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
wanted = [*project["dependencies"], *extras["spark"], *extras["ingest"], *extras["test"]]
left_out = ("frazil[", "pyspark", "virtualizarr", "kerchunk", "cfgrib", "eccodes", "seaweedfs", "mypy", "pandas-stubs",
            "atheris", "ipykernel", "nbclient", "playwright")
print("\n".join(each for each in wanted if not each.startswith(left_out)))
'

install() {
    local version=$1 folder=.build/spark-$1 log=.build/spark-$1.log python=.venv/bin/python
    local wanted=.build/spark-$1.txt pinned=.build/spark-$1-constraints.txt
    [ -x "$python" ] || python=$(scripts/find_python.sh)
    { echo "pyspark[connect]==$version.*"; "$python" -c "$requirements"; } >"$wanted"
    grep -v -i -E '^(pyspark|py4j)==' constraints.txt >"$pinned"
    cmp --silent "$wanted" "$folder/.installed" && return 0
    echo "installing PySpark $version into $folder (log: $log)"
    if ! { "$python" -m venv --clear "$folder" && "$folder/bin/python" -m pip install --no-input --disable-pip-version-check \
        --progress-bar off --constraint "$pinned" --requirement "$wanted"; } >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        echo "could not install PySpark $version; the whole log is in $log" >&2
        return 1
    fi
    cp "$wanted" "$folder/.installed"
}

# Only the files that have such tests: others import what is not installed here.
mapfile -t files < <(grep --recursive --files-with-matches --include='test_*.py' 'mark\.spark_matrix' tests/spark | sort)

failed=()
reports=()
for version in "${versions[@]}"; do
    install "$version"
    [ -z "${ONLY_INSTALL:-}" ] || continue
    exact=$(".build/spark-$version/bin/python" -c 'import pyspark; print(pyspark.__version__)')
    echo "PySpark $exact"
    PYTHONPATH=$PWD/src:$PWD ".build/spark-$version/bin/python" -m pytest -q -p no:cacheprovider -m spark_matrix \
        --junitxml=".build/spark-$version.xml" "${files[@]}" ${ARGS:-} || failed+=("$version")
    reports+=("$exact=.build/spark-$version.xml")
done
# The page tells of all versions and all tests, or it is not written.
if [ $# -eq 0 ] && [ -z "${ARGS:-}${ONLY_INSTALL:-}" ]; then
    .venv/bin/python -m scripts.spark_versions "${reports[@]}"
fi
[ ${#failed[@]} -eq 0 ] || { echo "failed with PySpark ${failed[*]}" >&2; exit 1; }
