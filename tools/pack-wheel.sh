#!/usr/bin/env bash
# Packs the program and the Rust module, without debug sections, and the Python sources into the one wheel in OUT; leaves a
# wheel alone that is newer than all of them. Refuses a program without eBPF probes, unless PERIGEE_WITHOUT_PROBES=1.
# usage: pack-wheel.sh PROGRAM MODULE GLIBC OUT    (GLIBC: the oldest that both run with, as 2.31)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly program=$1 module=$2 glibc=$3 out=$4
readonly package=dataplane/python
readonly hatchling=${VENV_BUILD:-target/venv-build}/bin/hatchling

fail() {
    printf 'pack-wheel: %s\n' "$@" >&2
    exit 1
}

check_probes() {
    [[ $("$program" --version) == *"(without eBPF probes)"* ]] || return 0
    [ "${PERIGEE_WITHOUT_PROBES:-}" = 1 ] ||
        fail "$program has no eBPF probes: run ebpf/build.sh --install and build again, or set PERIGEE_WITHOUT_PROBES=1."
    echo "pack-wheel: this wheel has no eBPF probes, because PERIGEE_WITHOUT_PROBES=1" >&2
}

is_new() { # WHEEL
    [ -e "$1" ] && [ -z "$(find "$program" "$module" "$package"/{mooncake,pyproject.toml,hatch_build.py} tools/pack-wheel.sh \
        -type f -not -path '*/__pycache__/*' -newer "$1" -print -quit)" ]
}

check_probes
mkdir -p "$out"
wheels=("$out"/*.whl)
if [ ${#wheels[@]} = 1 ] && is_new "${wheels[0]}"; then
    exit 0
fi
work=$(mktemp -d "$out/pack.XXXXXX")
trap 'rm -rf "$work"' EXIT
strip --strip-debug -o "$work/perigee" "$program"
strip --strip-debug -o "$work/_perigee.abi3.so" "$module"
rm -f "$out"/*.whl
(cd "$package" && PERIGEE_WHEEL_BINARIES=$work PERIGEE_WHEEL_GLIBC=$glibc "$hatchling" build --target wheel --directory "$out")
