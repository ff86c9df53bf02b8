#!/usr/bin/env bash
# Builds the tests that need RDMA devices and runs them in a virtual machine: one start for all of them.
#
#   tests/rdma/run.sh [NAME...]    those of programs.txt, or only the ones named
#   tests/rdma/run.sh --install    only install what the machine needs
#   tests/rdma/run.sh --kernels SERIES...    the installed wheel (VENV_RUN) on those kernels instead, as 6.1 5.10
#   tests/rdma/run.sh --disks [CUTS]    the installed wheel with a disk: one that answers errors, and one whose power goes, 3 times by default
#   tests/rdma/run.sh --measure [ROUNDS]    ratios to perftest instead of tests, 3 rounds by default, no verdict;
#                                  with PERIGEE_MOONCAKE=FOLDER also to the transfer_engine_bench in that folder
#
# Exit status: 0 if all passed, 1 if one failed, 125 if the machine could not be started.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly FOLDER=tests/rdma
readonly TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$TARGET
readonly WORK=$TARGET/rdma-vm
# Enough for two engines with two rails each.
readonly RAILS=4
# An emulated machine on a busy host is slow; a machine that hangs ends here.
readonly LIMIT_S=${PERIGEE_VM_LIMIT_S:-1200}

fail() {
    printf 'rdma: %s\n' "$@" >&2
    exit 125
}

missing_packages() {
    local pair
    [ -z "${measuring:-}" ] || command -v ib_write_bw >/dev/null || echo perftest
    for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio xz:xz-utils \
        modprobe:kmod dmsetup:dmsetup mkfs.ext4:e2fsprogs setpriv:util-linux rdma:iproute2 cc:gcc python3:python3; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || echo "${pair##*:}"
    done
    [ -e /usr/include/infiniband/verbs.h ] || echo libibverbs-dev
    ls /usr/lib/*/libibverbs/librxe-rdmav*.so >/dev/null 2>&1 || echo ibverbs-providers
}

install_packages() {
    local packages as_root=()
    packages=$(missing_packages | sort -u | tr '\n' ' ')
    [ -n "${packages// /}" ] || return 0
    command -v apt-get >/dev/null || fail "please install: $packages"
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    echo "rdma: installing $packages"
    # The lists are read again: the kernel's package changes its name with each update.
    "${as_root[@]}" apt-get update -qq
    # shellcheck disable=SC2086  # one word per package
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        $packages >/dev/null 2>&1 || fail "apt could not install: $packages"
}

# Prints NAME, guests, kind and the rest of each line of programs.txt that is asked for.
chosen_programs() { # NAME...
    local name guests kind rest
    while read -r name guests kind rest; do
        case $name in '' | '#'*) continue ;; esac
        [ $# = 0 ] || [[ " $* " = *" $name "* ]] || continue
        printf '%s %s %s %s\n' "$name" "$guests" "$kind" "$rest"
    done <"$FOLDER/programs.txt"
}

# Builds one test binary and prints its path. The whole workspace is named, because a part of it
# would have other features and be compiled again.
build_test() { # PACKAGE TEST
    cargo test --locked --no-run --quiet --message-format=json-render-diagnostics --workspace --test "$2" |
        python3 -c '
import json, sys
found = [m["executable"] for m in map(json.loads, sys.stdin)
         if m.get("executable") and f"#{sys.argv[1]}@" in m["package_id"] and m["target"]["name"] == sys.argv[2]]
print(found[-1])' "$1" "$2"
}

# Builds the perigee program that tests of kind `system` start, as what its own tests need.
build_program() {
    cargo test --locked --no-run --quiet --workspace --test program
    export PERIGEE_BIN=$CARGO_TARGET_DIR/debug/perigee
}

# Writes for each number of guests the commands that they run, one a line behind its name.
write_lists() { # NAME...
    local name guests kind rest binary arguments
    rm -f "$WORK"/list.*
    while read -r name guests kind rest; do
        case $kind in
            test | system)
                [ "$kind" = test ] || build_program
                arguments=--test-threads=1
                [[ $rest != *" -- "* ]] || arguments="$arguments ${rest#* -- }"
                # shellcheck disable=SC2086  # cargo's arguments
                binary=$(build_test ${rest%% -- *})
                echo "$name $binary $arguments" >>"$WORK/list.$guests"
                ;;
            run | program)
                [ "$kind" = run ] || build_program
                echo "$name $rest" >>"$WORK/list.$guests"
                ;;
            *) fail "programs.txt: $name is neither test, system, program nor run" ;;
        esac
    done < <(chosen_programs "$@")
}

# Figures rather than verdicts: everything in one machine, in turn.
measure() { # [ROUNDS]
    local rounds=${1:-3}
    cargo build --locked --release --package perigee-cli
    mkdir -p "$WORK/measure"
    strip -o "$WORK/measure/perigee" "$TARGET/release/perigee"
    "$FOLDER/vm.sh" --rails "$RAILS" --limit "$((LIMIT_S * 3))" --share "$WORK/measure" -- \
        bash "$FOLDER/measure.sh" "$WORK/measure" "$rounds" "${PERIGEE_MOONCAKE:-}"
    python3 "$FOLDER/summary.py" "$WORK/measure/results"
}

# The wheel on other kernels, one machine after the other.
play_kernels() { # SERIES...
    local kernel python=${VENV_RUN:-$TARGET/venv-run}/bin/python status=0
    for kernel in "$@"; do
        "$FOLDER/vm.sh" --kernel "$kernel" --rails "$RAILS" --limit "$LIMIT_S" --retries 1 -- \
            "$python" "$FOLDER/kernel.py" || status=$?
    done
    return $status
}

# The wheel with a disk that answers errors, then in one life of a machine after the other, with the same disk.
play_disks() { # [CUTS]
    local cuts=${1:-3} life folder=$WORK/disks python=${VENV_RUN:-$TARGET/venv-run}/bin/python
    rm -rf "$folder"
    mkdir -p "$folder"
    truncate -s 2G "$folder/disk"
    echo "== errors"
    "$FOLDER/vm.sh" --rails 0 --disk 1G --limit "$LIMIT_S" -- "$python" "$FOLDER/sick_disk.py" || return $?
    for ((life = 1; life <= cuts + 1; life++)); do
        local last=() cut=(--cut "$folder/cut")
        [ "$life" -le "$cuts" ] || last=(--last) cut=()
        rm -f "$folder/cut"
        echo "== life $life"
        "$FOLDER/vm.sh" --rails 0 --disk "$folder/disk" --share "$folder" "${cut[@]}" --limit "$LIMIT_S" -- \
            "$python" "$FOLDER/power_cut.py" "$folder" "${last[@]}" || return $?
        [ "$life" -gt "$cuts" ] || [ -e "$folder/cut" ] || fail "life $life ended before its power went"
    done
}

# Runs the tests of a list in the machine, or the machines, that its name tells.
play() { # LIST
    "$FOLDER/vm.sh" --hosts "${1##*.}" --rails "$RAILS" --limit "$LIMIT_S" --retries 1 \
        --share "$WORK" -- bash "$FOLDER/guest.sh" "$1"
}

[ "${1:-}" != --measure ] || measuring=1
install_packages
[ "${1:-}" != --install ] || exit 0
mkdir -p "$WORK"
if [ "${1:-}" = --measure ]; then
    measure "${2:-}"
    exit 0
fi
if [ "${1:-}" = --kernels ]; then
    shift
    play_kernels "$@"
    exit 0
fi
if [ "${1:-}" = --disks ]; then
    play_disks "${2:-}"
    exit 0
fi
"$FOLDER/vm.sh" --prepare &
prepared=$!
write_lists "$@"
wait $prepared || fail "the machine could not be prepared"
ls "$WORK"/list.* >/dev/null 2>&1 || fail "no program of programs.txt is called $*"
status=0
for list in "$WORK"/list.*; do
    ended=0
    play "$list" || ended=$?
    # CI alone plays a list with a failed test once more, as it does with other tests: see CONTRIBUTING.md.
    if [ "$ended" = 1 ] && [ -n "${CI:-}" ]; then
        echo "rdma: once more, and flaky if it passes now: $(cut -d" " -f1 "$list" | tr "\n" " ")" >&2
        ended=0
        play "$list" || ended=$?
    fi
    [ "$ended" = 0 ] || status=$ended
done
exit $status
