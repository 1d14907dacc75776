#!/usr/bin/env bash
# bootstrap.sh EXTRA: frazil[EXTRA] in .venv, with the versions of constraints.txt. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
extra=$1
venv=.venv
log=$venv/install.log

if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
    python=$(scripts/find_python.sh)
    echo "making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
fi

# On a terminal one line shows the current package; otherwise only the start and the end are printed.
show_progress() {
    if [ -t 1 ]; then
        awk '/^(Collecting|Installing)/ { printf "\r\033[K  %.70s", $0; fflush() } END { printf "\r\033[K" }'
    else
        cat >/dev/null
    fi
}

# Not compiled: of ten thousand modules most are never imported, and the others are compiled then.
install() {
    "$venv/bin/python" -m pip install --no-input --disable-pip-version-check --progress-bar off --no-compile \
        --constraint constraints.txt --editable ".[$extra]" 2>&1 | tee "$log" | show_progress
}

echo "installing frazil[$extra] into $venv (log: $log; the first time takes a few minutes)"
started=$SECONDS
if ! install; then
    echo "that failed, trying once more" >&2
    if ! install; then
        tail -n 20 "$log" >&2
        echo "could not install frazil[$extra]; the whole log is in $log" >&2
        exit 1
    fi
fi
echo "installed in $((SECONDS - started)) s"
