#!/usr/bin/env bash
# Prints the first Python >= 3.12 that can make a virtual environment, or says what was looked at.
# Order: $PYTHON alone if it is set; python3, python3.12 .. python3.14 on PATH; then pyenv's versions, oldest first.
set -euo pipefail

candidates() {
    if [ -n "${PYTHON:-}" ]; then
        echo "$PYTHON"
        return
    fi
    printf '%s\n' python3 python3.12 python3.13 python3.14
    find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -mindepth 3 -maxdepth 3 -path '*/bin/python' 2>/dev/null | sort -V
}

# Runs the candidate rather than trusting its name: pyenv's shims exist for versions that are not active.
probe='
import sys
print(sys.version.split()[0])
if sys.version_info < (3, 12):
    sys.exit("older than 3.12")
import ensurepip, venv
print(sys.executable)
'

looked_at=""
while read -r candidate; do
    if ! command -v "$candidate" >/dev/null 2>&1; then
        looked_at+="  $candidate: not found"$'\n'
    elif answer=$("$candidate" -c "$probe" 2>&1 </dev/null); then
        tail -n 1 <<<"$answer"
        exit 0
    else
        looked_at+="  $candidate: $(paste -sd ' ' <<<"$answer" | cut -c 1-100)"$'\n'
    fi
done < <(candidates)

printf 'frazil needs Python 3.12 or later, with venv. Looked at:\n%s' "$looked_at" >&2
printf 'Install one, or name it: make PYTHON=/path/to/python3.12 ...\n' >&2
exit 1
