#!/usr/bin/env bash
# Puts the program, without debug sections, where the wheel takes it from; leaves an equal file alone.
# Refuses a program without eBPF probes, unless PERIGEE_WITHOUT_PROBES=1 asks for that.
# usage: stage-program.sh PROGRAM DESTINATION
set -euo pipefail

readonly program=$1 destination=$2
readonly version=$("$program" --version)
if [[ $version == *"without eBPF probes"* ]]; then
    if [ "${PERIGEE_WITHOUT_PROBES:-}" != 1 ]; then
        echo "stage-program: $program has no eBPF probes: run ebpf/build.sh --install and build again," \
            "or set PERIGEE_WITHOUT_PROBES=1 for a wheel without them" >&2
        exit 1
    fi
    echo "stage-program: the wheel has no eBPF probes, because PERIGEE_WITHOUT_PROBES=1" >&2
fi
mkdir -p "$(dirname "$destination")"
readonly stripped="$destination.new"
trap 'rm -f "$stripped"' EXIT
strip --strip-debug -o "$stripped" "$program"
cmp -s "$stripped" "$destination" || mv "$stripped" "$destination"
