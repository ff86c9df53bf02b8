#!/usr/bin/env bash
# Builds the eBPF programs into one object file: ebpf/build.sh OUT.o
# Needs a Rust compiler that has a core library for bpfel-unknown-none, and bpf-linker for the same LLVM; both come from
# `ebpf/build.sh --install` (Debian packages and one crate). Exit status 3: they are not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly BPF_RUSTC=${BPF_RUSTC:-/usr/bin/rustc}
readonly TOOLS=${PERIGEE_BPF_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/perigee/bpf-tools}
readonly LINKER_VERSION=0.13.0
readonly TARGET=bpfel-unknown-none

missing() {
    printf 'ebpf: %s\n' "$@" >&2
    exit 3
}

llvm_major() {
    "$BPF_RUSTC" -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p'
}

has_core() {
    [ -x "$BPF_RUSTC" ] && [ -d "$("$BPF_RUSTC" --print sysroot)/lib/rustlib/$TARGET/lib" ]
}

# What to do where no package has the compiler.
readonly BY_HAND="Name a Rust compiler with a core library for $TARGET in BPF_RUSTC, and in PERIGEE_BPF_TOOLS the folder with
ebpf: bin/bpf-linker-N for its LLVM N. Or set PERIGEE_WITHOUT_PROBES=1: all but the agent's probes works without them."

install_tools() {
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    if ! has_core; then
        command -v apt-get >/dev/null || missing "Only Debian has a compiler for eBPF in Rust as a package." "$BY_HAND"
        echo "ebpf: installing rustc-web and libstd-rust-web-dev-bpf"
        "${as_root[@]}" apt-get update -qq
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends rustc-web libstd-rust-web-dev-bpf >/dev/null ||
            missing "apt could not install rustc-web and libstd-rust-web-dev-bpf (Debian 12 with security updates has them)." \
                "$BY_HAND"
    fi
    local llvm
    llvm=$(llvm_major)
    [ ! -x "$TOOLS/bin/bpf-linker-$llvm" ] || return 0
    if [ ! -x "/usr/lib/llvm-$llvm/bin/llvm-config" ]; then
        echo "ebpf: installing llvm-$llvm-dev"
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "llvm-$llvm-dev" >/dev/null ||
            missing "apt could not install llvm-$llvm-dev, which bpf-linker is built with."
    fi
    echo "ebpf: building bpf-linker $LINKER_VERSION for LLVM $llvm (a minute or two, once)"
    LLVM_PREFIX=/usr/lib/llvm-$llvm CARGO_TARGET_DIR="$TOOLS/build" cargo install --quiet bpf-linker --version "$LINKER_VERSION" \
        --locked --no-default-features --features "llvm-$llvm" --root "$TOOLS" --force ||
        missing "bpf-linker could not be built."
    mv "$TOOLS/bin/bpf-linker" "$TOOLS/bin/bpf-linker-$llvm"
    rm -rf "$TOOLS/build"
}

build() {
    local out=$1
    has_core || missing "No $BPF_RUSTC with a core library for $TARGET." "Run: ebpf/build.sh --install"
    local linker
    linker="$TOOLS/bin/bpf-linker-$(llvm_major)"
    [ -x "$linker" ] || missing "No bpf-linker for LLVM $(llvm_major)." "Run: ebpf/build.sh --install"
    local target_dir=${CARGO_TARGET_DIR:-../target}/probes
    local flags=("--cfg=bpf_target_arch=\"$(uname -m)\"" -Cdebuginfo=2 "-Clinker=$linker" -Clink-arg=--btf)
    # RUSTC_BOOTSTRAP names the one crate that needs it: `asm!` for this target is not stable yet.
    (cd probes && env -u CARGO_TARGET_DIR -u RUSTC_WRAPPER -u RUSTC_WORKSPACE_WRAPPER RUSTC="$BPF_RUSTC" RUSTC_BOOTSTRAP=aya_ebpf \
        CARGO_ENCODED_RUSTFLAGS="$(IFS=$'\x1f'; echo "${flags[*]}")" \
        cargo build --quiet --locked --release --target "$TARGET" --target-dir "$target_dir")
    mkdir -p "$(dirname "$out")"
    cp "$target_dir/$TARGET/release/perigee-probes" "$out"
    # Types stay (.BTF), line numbers go: 300 KiB become 50.
    local objcopy="/usr/lib/llvm-$(llvm_major)/bin/llvm-objcopy"
    [ ! -x "$objcopy" ] || "$objcopy" --strip-debug "$out"
}

case ${1:-} in
    --install) install_tools ;;
    "" | -*) missing "usage: ebpf/build.sh --install | OUT.o" ;;
    *) build "$1" ;;
esac
