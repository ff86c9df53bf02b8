#!/usr/bin/env bash
# Puts the program, without debug sections, where the wheel takes it from; leaves an equal file alone.
# usage: stage-program.sh PROGRAM DESTINATION
set -euo pipefail

readonly program=$1 destination=$2
mkdir -p "$(dirname "$destination")"
readonly stripped="$destination.new"
trap 'rm -f "$stripped"' EXIT
strip --strip-debug -o "$stripped" "$program"
cmp -s "$stripped" "$destination" || mv "$stripped" "$destination"
