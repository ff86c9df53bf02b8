#!/usr/bin/env bash
# Packs the program and the Rust module, without debug sections, and the Python sources into the one wheel in OUT; leaves a
# wheel alone that is newer than all of them. Refuses a program without eBPF probes, unless PERIGEE_WITHOUT_PROBES=1.
# usage: pack-wheel.sh PROGRAM MODULE TAG OUT    (TAG: cp311-abi3-manylinux_2_31_x86_64 and the like)
# Of another architecture nothing can be run or stripped here: STRIP names that architecture's strip, PROBES=0 believes the build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly program=$1 module=$2 tag=$3 out=$4
readonly package=dataplane/python
readonly hatchling=${VENV_BUILD:-target/venv-build}/bin/hatchling

fail() {
    printf 'pack-wheel: %s\n' "$@" >&2
    exit 1
}

check_probes() {
    [ "${PROBES:-1}" = 1 ] || return 0
    [[ $("$program" --version) == *"without eBPF probes)"* ]] || return 0
    [ "${PERIGEE_WITHOUT_PROBES:-}" = 1 ] ||
        fail "$program has no eBPF probes: run ebpf/build.sh --install and build again, or set PERIGEE_WITHOUT_PROBES=1."
    echo "pack-wheel: this wheel has no eBPF probes, because PERIGEE_WITHOUT_PROBES=1" >&2
}

# The name under which an interpreter of the tag looks for the module.
module_name() {
    case $tag in
        *-abi3-*) echo _perigee.abi3.so ;;
        cp310-cp310-manylinux_*_x86_64) echo _perigee.cpython-310-x86_64-linux-gnu.so ;;
        cp310-cp310-manylinux_*_aarch64) echo _perigee.cpython-310-aarch64-linux-gnu.so ;;
        *) fail "no module name for the tag $tag" ;;
    esac
}

is_new() { # WHEEL
    [ -e "$1" ] && [ -z "$(find "$program" "$module" "$package"/{mooncake,perigee_mooncake,tent,pyproject.toml,hatch_build.py} \
        "$package/perigee-mooncake.pth" tools/pack-wheel.sh \
        -type f -not -path '*/__pycache__/*' -newer "$1" -print -quit)" ]
}

check_probes
name=$(module_name)
mkdir -p "$out"
wheels=("$out"/*.whl)
if [ ${#wheels[@]} = 1 ] && is_new "${wheels[0]}"; then
    exit 0
fi
work=$(mktemp -d "$out/pack.XXXXXX")
trap 'rm -rf "$work"' EXIT
"${STRIP:-strip}" --strip-debug -o "$work/perigee" "$program"
"${STRIP:-strip}" --strip-debug -o "$work/$name" "$module"
rm -f "$out"/*.whl
(cd "$package" && PERIGEE_WHEEL_BINARIES=$work PERIGEE_WHEEL_TAG=$tag "$hatchling" build --target wheel --directory "$out")
