#!/usr/bin/env bash
# Lays out what C programs need: lib with the two shared libraries, without debug sections, include with their headers, and the files of
# pkg-config, which name absolute folders below PREFIX if that is given, and find the others by their own place otherwise.
# usage: pack-c.sh BUILT OUT [PREFIX LIBDIR INCLUDEDIR]    (BUILT: the folder where cargo puts them)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    printf 'pack-c: %s\n' "$@" >&2
    exit 1
}

[ $# = 2 ] || [ $# = 5 ] || fail "usage: pack-c.sh BUILT OUT [PREFIX LIBDIR INCLUDEDIR]"
readonly built=$1 out=$2
readonly prefix=${3:-'${pcfiledir}/../..'} libdir=${4:-'${prefix}/lib'} includedir=${5:-'${prefix}/include'}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

rm -rf "$out"
mkdir -p "$out/lib/pkgconfig" "$out/include"
for name in transfer_engine mooncake_store; do
    [ -f "$built/lib$name.so" ] || fail "$built has no lib$name.so: run \`make build\`"
    "${STRIP:-strip}" --strip-debug -o "$out/lib/lib$name.so" "$built/lib$name.so"
    sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@INCLUDEDIR@|$includedir|" -e "s|@VERSION@|$version|" \
        "tools/deploy/c/$name.pc.in" >"$out/lib/pkgconfig/$name.pc"
done
cp dataplane/c-engine/include/transfer_engine_c.h dataplane/c-store/include/store_c.h "$out/include/"
