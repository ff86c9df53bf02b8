#!/usr/bin/env bash
# Installs what building and testing needs and is missing; says nothing when all is there.
# Debian and Ubuntu packages through apt (with sudo unless root), Python tools into target/venv-build.
# The compiler of the eBPF probes is part of every set-up, unless PERIGEE_WITHOUT_PROBES=1.
# --without-nextest, --for-bench and --for-aarch64 leave out what only tests need; --for-bench adds memcached, --for-aarch64 what
# builds and runs programs of that architecture, --with-deny cargo-deny.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV="${VENV_BUILD:-target/venv-build}"
readonly REQUIREMENTS=tools/requirements-build.txt
readonly NEXTEST_VERSION=0.9.143
readonly DENY_VERSION=0.20.2
readonly PURPOSE=${1:-}
# Packages that start a service of their own, as package:service.
readonly SERVICES="memcached:memcached etcd-server:etcd redis-server:redis-server prometheus:prometheus"

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

has_library() {
    PATH="$PATH:/usr/sbin:/sbin" ldconfig -p | grep -q "$1"
}

# Prints the Debian packages whose command or module is not there.
missing_packages() {
    local pair
    for pair in gcc:gcc make:make pkg-config:pkg-config git:git readelf:binutils python3:python3; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair##*:}"
    done
    [ -e /usr/include/stdio.h ] || echo libc6-dev
    # The layouts of our own verbs structures are tested against these headers.
    [ -e /usr/include/infiniband/verbs.h ] || [ "$PURPOSE" = --without-nextest ] || echo libibverbs-dev
    PATH="$PATH:/usr/sbin:/sbin" command -v ip >/dev/null || echo iproute2
    python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    case $PURPOSE in
        --without-nextest) ;;
        --for-bench) command -v memcached >/dev/null || echo memcached ;;
        --for-aarch64)
            for pair in qemu-aarch64-static:qemu-user-static aarch64-linux-gnu-strip:binutils-aarch64-linux-gnu; do
                command -v "${pair%%:*}" >/dev/null || echo "${pair##*:}"
            done
            [ -e /usr/aarch64-linux-gnu/lib/libc.so.6 ] || echo libc6-arm64-cross
            [ -e /usr/aarch64-linux-gnu/lib/libgcc_s.so.1 ] || echo libgcc-s1-arm64-cross
            ;;
        *)
            command -v etcd >/dev/null || echo etcd-server
            command -v redis-server >/dev/null || echo redis-server
            # The Go packages are built and tested with it.
            command -v go >/dev/null || echo golang-go
            # The agent's page is tested in a browser, rules and dashboards by Prometheus, what stays attached by bpftool.
            for pair in chromium:chromium chromedriver:chromium-driver prometheus:prometheus promtool:prometheus; do
                command -v "${pair%%:*}" >/dev/null || echo "${pair##*:}"
            done
            PATH="$PATH:/usr/sbin:/sbin" command -v bpftool >/dev/null || echo bpftool
            command -v capsh >/dev/null || echo libcap2-bin
            PATH="$PATH:/usr/sbin:/sbin" command -v setpriv >/dev/null || echo util-linux
            # Mooncake itself, which the engine's tests talk to, is linked against these.
            for pair in libibverbs.so.1:libibverbs1 librdmacm.so.1:librdmacm1 libnuma.so.1:libnuma1 liburing.so.2:liburing2 \
                libcurl.so.4:libcurl4; do
                has_library "${pair%%:*}" || echo "${pair##*:}"
            done
            ;;
    esac
}

# Stops a service that a package has just started: nothing here wants it, and it would disturb the measuring.
# Usage: stop_service NAME [sudo]
stop_service() {
    local name=$1
    shift
    if [ -d /run/systemd/system ]; then
        "$@" systemctl disable --quiet --now "$name"
    elif [ -x "/etc/init.d/$name" ]; then
        "$@" "/etc/init.d/$name" stop >/dev/null && "$@" update-rc.d "$name" disable >/dev/null
    fi || fail "The service $name could not be disabled; do it by hand, then run this again."
}

install_packages() {
    local packages
    packages=$(missing_packages | sort -u | tr '\n' ' ')
    [ -n "${packages// /}" ] || return 0
    command -v apt-get >/dev/null || fail "Please install: $packages" "(this script knows apt only)"
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "Please run as root: apt-get install $packages"
        as_root=(sudo)
    fi
    echo "setup: installing $packages"
    # shellcheck disable=SC2086  # one word per package
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages \
        >/dev/null 2>&1 ||
        { "${as_root[@]}" apt-get update -qq &&
            "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y -qq --no-install-recommends $packages >/dev/null; } ||
        fail "apt could not install: $packages" "Connect to a Debian mirror, or install them by hand."
    local pair
    for pair in $SERVICES; do
        case " $packages " in
            *" ${pair%%:*} "*) stop_service "${pair##*:}" "${as_root[@]}" ;;
        esac
    done
}

check_rust() {
    local wanted
    wanted=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    command -v cargo >/dev/null && command -v rustc >/dev/null ||
        fail "No cargo and rustc found; Debian's own are too old." \
            "Install rustup (https://rustup.rs), then run this again: it fetches Rust $wanted by itself."
    local found
    found=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -1)" = "$wanted" ] ||
        fail "rustc $found is older than $wanted." "Run: rustup toolchain install $wanted"
}

# The standard library for aarch64, for cargo-zigbuild.
install_target() {
    local target=aarch64-unknown-linux-gnu
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] && return 0
    command -v rustup >/dev/null || fail "Rust's standard library for $target is missing, and there is no rustup to get it."
    rustup --quiet target add "$target" || fail "rustup could not get Rust's standard library for $target."
}

install_probe_tools() {
    if [ "${PERIGEE_WITHOUT_PROBES:-}" = 1 ]; then
        echo "setup: PERIGEE_WITHOUT_PROBES=1: what is built has no eBPF probes"
        return 0
    fi
    ebpf/build.sh --install ||
        fail "The tools for the eBPF probes are missing (see above); with PERIGEE_WITHOUT_PROBES=1 all is built without probes."
}

install_nextest() {
    command -v cargo-nextest >/dev/null && return 0
    echo "setup: building cargo-nextest $NEXTEST_VERSION (a few minutes, once)"
    cargo install --quiet --locked cargo-nextest --version "$NEXTEST_VERSION" ||
        fail "cargo-nextest could not be installed; is the crate registry reachable?"
}

install_deny() {
    command -v cargo-deny >/dev/null && return 0
    echo "setup: building cargo-deny $DENY_VERSION (a few minutes, once)"
    cargo install --quiet --locked cargo-deny --version "$DENY_VERSION" ||
        fail "cargo-deny could not be installed; is the crate registry reachable?"
}

check_python() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "Python 3.11 or newer is needed, this is $(python3 --version)."
}

install_python_tools() {
    local stamp="$VENV/requirements.stamp"
    cmp -s "$REQUIREMENTS" "$stamp" && [ -x "$VENV/bin/python" ] && return 0
    echo "setup: installing Python tools into $VENV"
    python3 -m venv "$VENV"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -r "$REQUIREMENTS" ||
        fail "pip could not install $REQUIREMENTS; is the package index reachable?" \
            "Offline: fill a folder with \`pip download -r $REQUIREMENTS\` and set PIP_FIND_LINKS and PIP_NO_INDEX=1."
    cp "$REQUIREMENTS" "$stamp"
}

install_packages
check_rust
install_probe_tools
check_python
install_python_tools
case $PURPOSE in
    --without-nextest | --for-bench) ;;
    --for-aarch64) install_target ;;
    --with-deny) install_deny ;;
    *) install_nextest ;;
esac
