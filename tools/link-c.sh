#!/usr/bin/env bash
# Links a library for C from the archive that cargo has built, with the versions of its map and nothing but the functions there.
# Not cargo itself: rustc passes a version script of its own to the linker, beside which none takes another one reliably.
# Does nothing if the library is newer than what it is made of.
# usage: link-c.sh transfer_engine|mooncake_store ARCHIVE FOLDER [COMPILER ...]    (the compiler that links, and its options: cc)
set -euo pipefail

fail() {
    printf 'link-c: %s\n' "$@" >&2
    exit 1
}

[ $# -ge 3 ] || fail "usage: link-c.sh transfer_engine|mooncake_store ARCHIVE FOLDER [COMPILER ...]"
readonly name=$1 archive=$2 library=$3/lib$1.so
compiler=("${@:4}")
[ ${#compiler[@]} -gt 0 ] || compiler=(cc)
root=$(dirname "${BASH_SOURCE[0]}")/..
case $name in
    transfer_engine) map=$root/dataplane/c-engine/$name.map ;;
    mooncake_store) map=$root/dataplane/c-store/$name.map ;;
    *) fail "$name is none of the libraries for C" ;;
esac
[ -f "$archive" ] || fail "there is no $archive: run \`make build\`"
if [ "$library" -nt "$archive" ] && [ "$library" -nt "$map" ] && [ "$library" -nt "${BASH_SOURCE[0]}" ]; then
    exit 0
fi

# Each function is what the linker looks for in the archive.
mapfile -t wanted < <(sed -n 's/^    \([A-Za-z_][A-Za-z0-9_]*\);$/-Wl,-u,\1/p' "$map")
# nodelete: its threads run until the process ends.
# The libraries are those that `rustc --print native-static-libs` lists.
"${compiler[@]}" -shared -o "$library.part" "${wanted[@]}" "$archive" \
    -Wl,-soname,"lib$name.so" -Wl,--version-script="$map" -Wl,--gc-sections -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now \
    -Wl,--as-needed -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
mv "$library.part" "$library"
