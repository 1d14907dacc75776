#!/usr/bin/env bash
# test_versions.sh [VERSION...]: unit and compat tests with each Python >= 3.12 on this machine (or with those named,
# such as 3.13), each with the versions of constraints.txt in .build/python-VERSION. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .build

# Prints "VERSION PATH" for each minor version found: on PATH first, then among pyenv's.
interpreters() {
    local candidate version
    { printf '%s\n' python3 python3.{12..20}; find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -mindepth 3 -maxdepth 3 \
        -path '*/bin/python' 2>/dev/null | sort -V; } | while read -r candidate; do
        version=$("$candidate" -c 'import sys, venv, ensurepip
if sys.version_info >= (3, 12): print("%d.%d" % sys.version_info[:2], sys.executable)' 2>/dev/null </dev/null) || continue
        [ -z "$version" ] || echo "$version"
    done | sort -V -s -u -k1,1
}

# Returns 1 where the versions of constraints.txt cannot be installed, which is reported and no failure of a test.
install() {
    local version=$1 python=$2 folder=.build/python-$1 log=.build/python-$1.log
    cat pyproject.toml constraints.txt >".build/python-$version.txt"
    cmp --silent ".build/python-$version.txt" "$folder/.installed" && return 0
    echo "installing into $folder (log: $log)"
    { "$python" -m venv --clear "$folder" && "$folder/bin/python" -m pip install --no-input --disable-pip-version-check \
        --progress-bar off --constraint constraints.txt --editable '.[test]'; } >"$log" 2>&1 || return 1
    cp ".build/python-$version.txt" "$folder/.installed"
}

mapfile -t found < <(interpreters)
wanted=("$@")
passed=() failed=() missing=()
for line in "${found[@]}"; do
    version=${line%% *} python=${line#* }
    [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $version "* ]] || continue
    echo "Python $version"
    if ! install "$version" "$python"; then
        tail -n 3 ".build/python-$version.log" >&2
        missing+=("$version")
        continue
    fi
    # shellcheck disable=SC2086 # several arguments
    if TMPDIR=$(scripts/temporary_folder.sh) PYTHONPATH=$PWD/src:$PWD ".build/python-$version/bin/python" -m pytest -q \
        -p no:cacheprovider -n 2 --dist loadscope -m "not long" ${ARGS:-tests/unit tests/compat}; then
        passed+=("$version")
    else
        failed+=("$version")
    fi
done
echo "passed: ${passed[*]:-none}; failed: ${failed[*]:-none}; cannot be installed: ${missing[*]:-none}"
[ ${#failed[@]} -eq 0 ] && [ ${#passed[@]} -gt 0 ]
