#!/usr/bin/env bash
# Prints the folder for what tests write: in memory where there is plenty of it, since thousands of
# commits that each wait for a disk add up to minutes; else the usual one.
set -euo pipefail

memory=/dev/shm
least_kb=$((4 * 1024 * 1024))

has_room() {
    [ -w "$memory" ] &&
        [ "$(df -k "$memory" | awk 'END { print $4 }')" -gt "$least_kb" ] &&
        [ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -gt "$least_kb" ]
}

# Some tests run programs that they write.
runs_programs() {
    local probe
    probe=$(mktemp "$memory/frazil.XXXXXX")
    printf '#!/bin/sh\n' >"$probe"
    chmod +x "$probe"
    "$probe" 2>/dev/null && rm "$probe" || { rm "$probe" && false; }
}

if has_room 2>/dev/null && runs_programs; then
    echo "$memory"
else
    echo "${TMPDIR:-/tmp}"
fi
