#!/usr/bin/env bash
# install_servers.sh [NAME...]: the servers that tests talk to and that cannot live in .venv, each in .build/NAME.
# ministack pins a botocore of its own; azurite comes from npm. SeaweedFS is a wheel in .venv. Safe to repeat, and at once.
# The browser that looks at the explorer is the system's: where there is none, and we are root, apt installs Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .build

# Steps are joined with &&: inside a condition `set -e` means nothing.
install_ministack() {
    local python=.venv/bin/python
    [ -x "$python" ] || python=$(scripts/find_python.sh)
    "$python" -m venv --clear "$1" &&
        "$1/bin/python" -m pip install --no-input --disable-pip-version-check --progress-bar off \
            --requirement tests/servers/ministack.txt
}

install_azurite() {
    command -v npm >/dev/null || { echo "npm is not on PATH"; return 1; }
    rm -rf "$1" && mkdir -p "$1" && cp tests/servers/azurite.json "$1/package.json" &&
        npm install --prefix "$1" --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel=error
}

find_chromium() {
    local name
    for name in chromium chromium-browser; do
        # Ubuntu's package of that name only says where else to get it.
        command -v "$name" >/dev/null && "$name" --version >/dev/null 2>&1 && return 0
    done
    return 1
}

apt_chromium() {
    command -v apt-get >/dev/null || { echo "there is no apt-get: install chromium yourself"; return 1; }
    [ "$(id -u)" = 0 ] || { echo "only root can install it: apt-get install chromium"; return 1; }
    export DEBIAN_FRONTEND=noninteractive
    # On a fresh machine the lists are missing or old; those that cannot be fetched may not matter.
    apt-get -o Acquire::Retries=3 update || echo "some lists could not be fetched"
    apt-get -o Acquire::Retries=3 install -y --no-install-recommends chromium && find_chromium
}

install_chromium() {
    local log=.build/chromium.log
    find_chromium && return 0
    echo "installing chromium by apt (log: $log)"
    if ! { apt_chromium || apt_chromium; } >"$log" 2>&1; then # once more: networks fail
        tail -n 5 "$log" >&2
        echo "could not install chromium; the whole log is in $log" >&2
        return 1
    fi
}

# What was installed is remembered beside it, so that a new pin is a new installation.
pins() {
    case $1 in
        ministack) echo tests/servers/ministack.txt ;;
        azurite) echo tests/servers/azurite.json ;;
        *) echo "no such server: $1" >&2; return 1 ;;
    esac
}

install() {
    local name=$1 pinned folder=.build/$1 log=.build/$1.log
    [ "$name" != chromium ] || { install_chromium; return; }
    pinned=$(pins "$name") || return 1
    cmp --silent "$pinned" "$folder/.installed" && return 0
    echo "installing $name into $folder (log: $log)"
    if ! { "install_$name" "$folder" || "install_$name" "$folder"; } >"$log" 2>&1; then # once more: networks fail
        tail -n 5 "$log" >&2
        echo "could not install $name; the whole log is in $log" >&2
        return 1
    fi
    cp "$pinned" "$folder/.installed"
}

[ $# -gt 0 ] || set -- ministack azurite chromium
failed=0
for name in "$@"; do
    exec 9>".build/$name.lock" # two test processes may want it at the same moment
    flock 9
    install "$name" || failed=1
    exec 9>&-
done
exit $failed
