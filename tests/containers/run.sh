#!/usr/bin/env bash
# Plays master, node, store service and clients in real containers, with the limits that containers have in the field.
# Needs root, Debian's docker.io and debootstrap (--install gets them), and the wheel in target/wheels (`make test-containers`).
#   tests/containers/run.sh [--install | PYTEST ARGUMENTS...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
readonly PYTHON=${VENV_RUN:-$TARGET/venv-run}/bin/python
export PERIGEE_CONTAINERS_CACHE=$TARGET/containers
readonly SUITE=bookworm
readonly TIMEOUT_S=600

fail() {
    printf 'containers: %s\n' "$@" >&2
    exit 1
}

missing_packages() {
    local pair
    for pair in dockerd:docker.io docker:docker.io docker-compose:docker-compose debootstrap:debootstrap ip:iproute2 \
        iptables:iptables nsenter:util-linux curl:curl etcd:etcd-server; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || echo "${pair##*:}"
    done
}

# The packages would start a daemon for the whole host; these tests have one of their own.
install_packages() {
    local packages
    packages=$(missing_packages | sort -u | tr '\n' ' ')
    [ -n "${packages// /}" ] || return 0
    command -v apt-get >/dev/null || fail "please install: $packages"
    echo "containers: installing $packages"
    local policy=/usr/sbin/policy-rc.d
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && trap "rm -f $policy" EXIT; }
    # shellcheck disable=SC2086  # one word per package
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null 2>&1 ||
        { apt-get update -qq &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null; } ||
        fail "apt could not install: $packages"
}

# A small Debian with Python, once.
make_base() {
    local base=$PERIGEE_CONTAINERS_CACHE/base.tar
    [ ! -e "$base" ] || return 0
    echo "containers: making the base image (a minute, once)"
    mkdir -p "$PERIGEE_CONTAINERS_CACHE"
    local root
    root=$(mktemp -d "$PERIGEE_CONTAINERS_CACHE/base.XXXXXX")
    PATH=$PATH:/usr/sbin:/sbin debootstrap --variant=minbase --include=python3,python3-venv "$SUITE" "$root" \
        >"$PERIGEE_CONTAINERS_CACHE/debootstrap.log" 2>&1 ||
        fail "debootstrap failed:" "$(tail -n 5 "$PERIGEE_CONTAINERS_CACHE/debootstrap.log")"
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    tar -C "$root" -cf "$base.new" .
    mv "$base.new" "$base"
    rm -rf "$root"
}

# What the Dockerfile is built from: our wheel, and the wheels that it needs.
make_context() {
    local context=$PERIGEE_CONTAINERS_CACHE/context wheel
    wheel=$(ls "$TARGET"/wheels/*.whl) || fail "no wheel; run make wheel"
    mkdir -p "$context"
    rm -f "$context"/perigee_mooncake-*.whl
    cp "$wheel" "$context/"
    compgen -G "$context/aiohttp-*.whl" >/dev/null && return 0
    "$PYTHON" -m pip download --quiet --only-binary :all: --python-version 3.11 --dest "$context" "$wheel" ||
        fail "pip could not reach the package index"
}

# An engine's image as it is today: Mooncake's own wheel, and what it needs, installed for the engine's interpreter.
make_engine_context() {
    local context=$PERIGEE_CONTAINERS_CACHE/engine
    compgen -G "$context/mooncake_transfer_engine_non_cuda-*.whl" >/dev/null && return 0
    mkdir -p "$context"
    "$PYTHON" -m pip download --quiet --only-binary :all: --python-version 3.11 --dest "$context" \
        mooncake-transfer-engine-non-cuda==0.3.13.post1 || fail "pip could not reach the package index"
}

[ "$(id -u)" = 0 ] || fail "containers need root; run this with sudo"
install_packages
[ "${1:-}" != --install ] || exit 0
make_base
make_context
make_engine_context
exec timeout "$TIMEOUT_S" "$PYTHON" -m pytest -q -p no:cacheprovider ${CI:+--reruns 1 -rR} --rootdir tests/containers tests/containers "$@"
