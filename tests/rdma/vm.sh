#!/usr/bin/env bash
# Runs one command in a small virtual machine that has RDMA devices (Soft-RoCE).
#
#   tests/rdma/vm.sh [options] -- COMMAND [ARGUMENT...]
#
# The guest runs Debian's own kernel under plain emulation (no KVM needed) and sees this host's root
# read-only, so COMMAND is any program that runs here. It starts in the current directory, which it may
# write to, with the current environment. Its output and exit status are those of this script.
#
# Options
#   --rails N      RDMA devices rxe0..rxe(N-1), each on a link rail0..rail(N-1)        (2)
#   --hosts N      1, or 2: two guests joined rail by rail; COMMAND runs in both       (1)
#   --disk SIZE    an NVMe disk, as 512M, or a file that is one and stays; may be given again   (none)
#   --cut FILE     the power goes as soon as FILE exists: guests end on the spot, with status 0
#   --memory SIZE  memory of a guest                                              (1536M)
#   --cpus N       processors of a guest; no more than this host has                   (2)
#   --mtu N        of the links; 4200 makes packets of 4096, 1500 of 1024           (4200)
#   --share DIR    one more directory that COMMAND may write to
#   --limit S      seconds until the guests are stopped                             (300)
#   --retries N    start over if a guest's kernel dies while COMMAND runs              (0)
#   --kernel V     a series of this Debian, as 6.1, or of the one before it, 5.10 (the newest)
#   --prepare      fetch the kernel and make the start image, then end
#   --help         this text
#
# COMMAND finds in its environment
#   PERIGEE_VM=1  PERIGEE_VM_HOST=0|1  PERIGEE_VM_DEVICES="rxe0 rxe1"  PERIGEE_VM_RAILS="rail0 rail1"
#   PERIGEE_VM_ADDRESSES (own, by rail)  PERIGEE_VM_PEER_ADDRESSES (with two guests)  PERIGEE_VM_DISKS
#   PERIGEE_VM_RAIL: a script; `$PERIGEE_VM_RAIL down|up|cut|join|loss|delay|clear N [VALUE]` breaks and mends rail N
#
# Exit status: COMMAND's own; 124 after the limit; 125 if a guest died or could not start.
# The kernel's log is kept as console.N in the cache, which is target/rdma-vm or PERIGEE_VM_CACHE.
set -euo pipefail

readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly CACHE=${PERIGEE_VM_CACHE:-${CARGO_TARGET_DIR:-$HERE/../../target}/rdma-vm}
# What the guest loads at its start, dependencies apart. rdma_rxe asks for a crc32 without saying so.
readonly MODULES="virtio_pci virtio_net virtio_console 9pnet_virtio 9p overlay bridge veth
    crc32_generic crc32-pclmul ib_uverbs rdma_rxe nvme sch_netem"
readonly STARTS_MAX=3
PATH=$PATH:/usr/sbin:/sbin

rails=2 hosts=1 memory=1536M cpus=2 mtu=4200 limit=300 retries=0 kernel='' prepare=0 cut=''
disks=() shares=("$PWD")

fail() {
    printf 'vm: %s\n' "$@" >&2
    exit 125
}

read_options() {
    while [ $# -gt 0 ]; do
        case $1 in
            --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
            --prepare) prepare=1; shift; continue ;;
            --) shift; break ;;
            --*) [ $# -ge 2 ] || fail "$1 needs a value, see --help" ;;
            *) break ;;
        esac
        case $1 in
            --rails) rails=$2 ;;
            --hosts) hosts=$2 ;;
            --disk) disks+=("$2") ;;
            --cut) cut=$2 ;;
            --memory) memory=$2 ;;
            --cpus) cpus=$2 ;;
            --mtu) mtu=$2 ;;
            --share) shares+=("$(realpath "$2")") ;;
            --limit) limit=$2 ;;
            --retries) retries=$2 ;;
            --kernel) kernel=$2 ;;
            *) fail "unknown option $1, see --help" ;;
        esac
        shift 2
    done
    command=("$@")
    [ $prepare = 1 ] || [ ${#command[@]} -gt 0 ] || fail "no command given, see --help"
    case $hosts in 1 | 2) ;; *) fail "--hosts is 1 or 2" ;; esac
}

check_tools() {
    local tool
    for tool in qemu-system-x86_64 busybox depmod modprobe cpio xz setpriv; do
        command -v "$tool" >/dev/null || fail "$tool is missing: run tests/rdma/run.sh --install"
    done
}

# Prints the newest kernel package that has what is needed: Debian's full kernels, no cloud ones. Arguments are apt's options.
kernel_package() {
    apt-cache "$@" search --names-only '^linux-image-[0-9.]+(-[0-9]+|\+deb[0-9.]+)-amd64$' |
        awk '{print $1}' | grep -F -- "linux-image-${kernel:+$kernel.}" | sort -V | tail -n 1
}

# Package lists of the Debian before this one, below FOLDER: this host's own stay as they are.
older_lists() { # FOLDER
    local site suite
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    # The mirrors are those that this host uses.
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u | while read -r site; do
        case ${site%/} in
            */debian) suite=bullseye ;;
            */debian-security) suite=bullseye-security ;;
            *) continue ;;
        esac
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main"
    done >"$1/sources.list"
    older=(-o Dir::Etc::SourceList="$1/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists="$1/lists" -o Dir::Cache="$1/cache" -o APT::Sandbox::User=root)
    apt-get "${older[@]}" update -qq >&2 || fail "apt cannot read the lists of Debian 11"
}

fetch_kernel() {
    [ ! -e "$store/ready" ] || return 0
    local work package version older=()
    work=$(mktemp -d "$store/fetch.XXXXXX")
    package=$(kernel_package || true)
    if [ -z "$package" ] && [ -n "$kernel" ]; then
        older_lists "$work/older"
        package=$(kernel_package "${older[@]}" || true)
    fi
    [ -n "$package" ] || fail "the package lists have no kernel $kernel: run apt-get update"
    echo "vm: fetching $package" >&2
    (cd "$work" && apt-get "${older[@]}" download -qq "$package" >/dev/null 2>log) ||
        fail "cannot download $package" "$(cat "$work/log")"
    dpkg -x "$work"/linux-image-*.deb "$work/unpacked"
    [ -d "$work/unpacked/lib" ] || ln -s usr/lib "$work/unpacked/lib"
    version=$(ls "$work/unpacked/lib/modules")
    depmod -b "$work/unpacked" "$version"
    unpack_modules "$work" "$version"
    rm -rf "$store/modules" "$store/tree" "$store/initrd"
    mv "$work/modules" "$store/modules"
    mv "$(realpath "$work/unpacked/lib/modules/$version")" "$store/tree"
    mv "$work"/unpacked/boot/vmlinuz-* "$store/vmlinuz"
    echo "$package" >"$store/ready"
    rm -rf "$work"
}

# Unpacks here what the guest loads at its start: in the guest it would take seconds.
unpack_modules() { # WORK VERSION
    local module kind path name
    mkdir "$1/modules"
    for module in $MODULES; do
        modprobe -d "$1/unpacked" -S "$2" --show-depends "$module" 2>/dev/null || true
    done | while read -r kind path _; do
        [ "$kind" = insmod ] || continue
        name=$(basename "$path")
        name=${name%.xz} name=${name%.zst}
        [ -e "$1/modules/$name" ] && continue
        case $path in
            *.xz) xz -dc "$path" >"$1/modules/$name" ;;
            *.zst) zstd -dcq "$path" >"$1/modules/$name" ;;
            *) cp "$path" "$1/modules/$name" ;;
        esac
        echo "$name" >>"$1/modules/order"
    done
}

build_initrd() {
    [ "$store/initrd" -nt "$HERE/guest/init" ] && return 0
    local root
    root=$(mktemp -d "$store/initrd.XXXXXX")
    mkdir -p "$root"/{bin,proc,sys,dev,lower,upper,final}
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp -r "$store/modules" "$root/modules"
    cp "$HERE/guest/init" "$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$store/initrd.new"
    mv "$store/initrd.new" "$store/initrd"
    rm -rf "$root"
}

# Everything a guest reads: its configuration, the command, the environment.
write_control() { # HOST
    local folder=$run/control$1
    mkdir -p "$folder"
    cp "$HERE/guest/main.sh" "$HERE/guest/rail.sh" "$folder/"
    {
        printf 'cd %q || exit 125\nexec' "$PWD"
        printf ' %q' "${command[@]}"
        echo
    } >"$folder/command.sh"
    export -p | grep -vE '^declare -x (PWD|OLDPWD|SHLVL|TMPDIR|_)=' >"$folder/environment.sh" || true
    {
        declare -p rails hosts mtu shares
        echo "host=$1"
        printf 'tree=%q\n' "$(realpath "$store/tree")"
    } >"$folder/configuration.sh"
}

start_guest() { # HOST
    local host=$1 i share disk
    local control=$run/control$host
    local arguments=(
        -nodefaults -no-user-config -display none -no-reboot -machine q35 -cpu max,la57=off
        -accel tcg,thread=multi,tb-size=256 -smp "$cpus" -m "$memory"
        -kernel "$store/vmlinuz" -initrd "$store/initrd"
        # One processor until the command starts: fewer races of the emulator with a booting kernel.
        -append "console=ttyS0 quiet loglevel=5 panic=-1 nokaslr mitigations=off random.trust_cpu=on tsc=reliable maxcpus=1"
        -chardev "file,id=console,path=$run/console.$host" -serial chardev:console
        -device virtio-serial-pci -device virtio-rng-pci
        -add-fd fd=6,set=1 -chardev file,id=out,path=/dev/fdset/1,append=on
        -device virtserialport,chardev=out,name=out
        -add-fd fd=7,set=2 -chardev file,id=err,path=/dev/fdset/2,append=on
        -device virtserialport,chardev=err,name=err
        -virtfs "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"
        -virtfs "local,path=$control,mount_tag=control,security_model=none"
    )
    i=0
    for share in "${shares[@]}"; do
        arguments+=(-virtfs "local,path=$share,mount_tag=share$i,security_model=none,multidevs=remap")
        i=$((i + 1))
    done
    for ((i = 0; i < ${#disks[@]}; i++)); do
        disk=$run/disk$i.$host
        case ${disks[i]} in
            */*) disk=${disks[i]} ;;
            *) truncate -s "${disks[i]}" "$disk" ;;
        esac
        arguments+=(
            -drive "file=$disk,if=none,id=disk$i,format=raw,cache=writeback,discard=unmap"
            -device "nvme,drive=disk$i,serial=disk$i,max_ioqpairs=4"
        )
    done
    if [ "$hosts" = 2 ]; then
        for ((i = 0; i < rails; i++)); do
            arguments+=(
                -netdev "stream,id=rail$i,server=$([ "$host" = 0 ] && echo on || echo off),addr.type=unix,addr.path=$run/rail$i"
                -device "virtio-net-pci,netdev=rail$i,mac=$(printf '52:54:00:9e:%02x:%02x' "$i" "$host"),host_mtu=$mtu"
            )
        done
    fi
    # The kernel ends the guest with this script; `cat` keeps the emulator away from our own descriptors.
    setpriv --pdeathsig KILL qemu-system-x86_64 "${arguments[@]}" </dev/null \
        6> >(exec cat >&4) 7> >(exec cat >&5) >"$run/emulator.$host" 2>&1 &
    guests+=($!)
}

# Seconds are counted from the start of the script.
wait_for() { # TRIES CONDITION...
    local tries=$1
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}

count_running() {
    local guest
    running=0
    for guest in "${guests[@]}"; do
        ! kill -0 "$guest" 2>/dev/null || running=$((running + 1))
    done
}

stop_guests() { # [SIGNAL]
    local guest
    for guest in "${guests[@]}"; do
        kill -s "${1:-TERM}" "$guest" 2>/dev/null || true
        wait "$guest" 2>/dev/null || true
    done
    guests=()
}

# Starts the guests, lets them begin together, waits for their end. Fails if one died before that.
attempt() {
    local host ready begun=0
    guests=()
    rm -rf "$run"/control* "$run"/rail*
    for ((host = 0; host < hosts; host++)); do
        write_control "$host"
        start_guest "$host"
        # The second guest connects to the sockets of the first.
        if [ "$hosts" = 2 ] && [ "$host" = 0 ] && [ "$rails" -gt 0 ]; then
            wait_for 100 test -S "$run/rail$((rails - 1))" || return 1
        fi
    done
    while count_running; [ $running -gt 0 ]; do
        if [ $begun = 0 ]; then
            ready=$(ls -d "$run"/control*/ready 2>/dev/null | wc -l)
            if [ "$ready" = "$hosts" ]; then
                begun=1
                for ((host = 0; host < hosts; host++)); do : >"$run/control$host/go"; done
            elif [ $running -lt "$hosts" ]; then
                stop_guests
                return 1
            fi
        fi
        if [ -n "$cut" ] && [ -e "$cut" ]; then
            stop_guests KILL
            for ((host = 0; host < hosts; host++)); do echo 0 >"$run/control$host/status"; done
            return 0
        fi
        if [ $SECONDS -ge "$limit" ]; then
            echo "vm: the limit of $limit s is over" >&2
            stop_guests
            tail -n 15 "$run"/console.* >&2
            exit 124
        fi
        sleep 0.1
    done
    [ $begun = 1 ]
}

finish() {
    local console
    stop_guests
    for console in "$run"/console.*; do
        [ ! -e "$console" ] || mv -f "$console" "$CACHE/"
    done
    rm -rf "$run"
}

# Runs until every guest has reported a status, within the tries that are allowed.
run_command() {
    local starts=$STARTS_MAX host dead
    while :; do
        if ! attempt; then
            starts=$((starts - 1))
            echo "vm: a guest died while starting, $starts tries left" >&2
            [ $starts -gt 0 ] && continue
            cat "$run"/emulator.* >&2
            tail -n 15 "$run"/console.* >&2
            exit 125
        fi
        dead=''
        for ((host = 0; host < hosts; host++)); do
            [ -s "$run/control$host/status" ] || dead="$dead $host"
        done
        [ -n "$dead" ] || return 0
        echo "vm: guest$dead died while the command ran; its last lines:" >&2
        for host in $dead; do tail -n 15 "$run/console.$host" >&2; done
        [ "$retries" -gt 0 ] || exit 125
        retries=$((retries - 1))
        echo "vm: once more" >&2
    done
}

read_options "$@"
check_tools
readonly store=$CACHE/${kernel:-newest}
mkdir -p "$store"
exec 9>"$store/lock"
flock 9
fetch_kernel
build_initrd
exec 9>&-
[ $prepare = 0 ] || exit 0

run=$(mktemp -d /tmp/perigee-vm.XXXXXX)
guests=()
trap finish EXIT
trap 'exit 130' INT TERM
exec 4>&1 5>&2
run_command
# The last bytes of the two ports pass through `cat`.
sleep 0.1
for ((host = 0; host < hosts; host++)); do
    status=$(cat "$run/control$host/status")
    [ "$status" = 0 ] || exit "$status"
done
