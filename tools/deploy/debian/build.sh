#!/usr/bin/env bash
# Builds the Debian package of programs, units and libraries for C from what was built: build.sh [--install | BUILT OUT]
# debhelper makes it, because it knows what a package of Debian's has to do with units, settings in /etc, dependencies on the C library
# and removal, and keeps knowing it; dpkg-deb alone would leave the maintainer scripts to us. --install gets debhelper and lintian.
# DEBFULLNAME and DEBEMAIL name who maintains the package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

fail() {
    printf 'deb: %s\n' "$@" >&2
    exit 1
}

install_packages() {
    local pair packages=()
    for pair in dh:debhelper dpkg-buildpackage:dpkg-dev lintian:lintian; do
        command -v "${pair%%:*}" >/dev/null || packages+=("${pair##*:}")
    done
    [ ${#packages[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || fail "please install: ${packages[*]}"
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    echo "deb: installing ${packages[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" \
        >/dev/null 2>&1 ||
        { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null; } ||
        fail "apt could not install: ${packages[*]}"
}

install_packages
[ "${1:-}" != --install ] || exit 0
[ $# = 2 ] || fail "usage: build.sh BUILT OUT"
readonly built=$1 out=$2
readonly here=tools/deploy/debian
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
maintainer="${DEBFULLNAME:-Perigee maintainers} <${DEBEMAIL:-perigee@$(hostname -f)}>"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

tree=$out/perigee-$version
rm -rf "$out"
mkdir -p "$tree/debian" "$tree/bin"
cp "$built/perigee" "$tree/bin/perigee"
# A folder of their own: Mooncake has libraries of these names, and they are for programs that ask for them.
tools/pack-c.sh "$built" "$tree/c" /usr /usr/lib/perigee /usr/include/perigee
cp README.md "$tree/"
cp -r "$here/etc" "$here/default" "$tree/"
mkdir "$tree/systemd"
# The unit of the store service runs the Python module, which is not in this package.
cp tools/deploy/systemd/perigee-{agent,master,metadata,node}.service "$tree/systemd/"
python3 "$here/manual.py" "$tree/bin/perigee" "$tree/man"
cp "$here"/{rules,copyright,perigee.*} "$tree/debian/"
sed "s|@MAINTAINER@|$maintainer|" "$here/control" >"$tree/debian/control"
mkdir "$tree/debian/source"
echo "3.0 (native)" >"$tree/debian/source/format"
printf 'perigee (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of the source.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" >"$tree/debian/changelog"
(cd "$tree" && dpkg-buildpackage --build=binary --unsigned-changes --unsigned-buildinfo --no-check-builddeps >../build.log 2>&1) ||
    fail "dpkg-buildpackage failed:" "$(tail -n 20 "$out/build.log")"
rm -rf "$tree"
ls "$out"/perigee_*.deb
