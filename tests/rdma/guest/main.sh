#!/bin/bash
# First program on the guest's final root: sets up folders, links and RDMA devices, runs the command,
# reports its status and stops the machine. A new process costs some 50 ms here, so there are few.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CONTROL=/run/perigee-vm
. $CONTROL/configuration.sh # rails hosts host mtu shares tree

say() { echo "vm: $*" >/dev/kmsg; }

end() {
    echo "$1" >$CONTROL/status
    busybox sync
    busybox reboot -f
}

mount_folders() {
    busybox sh -c '
        mkdir -p /dev/pts /dev/shm
        mount -t devpts devpts /dev/pts
        mount -t tmpfs shm /dev/shm
        for pair in cgroup2:/sys/fs/cgroup bpf:/sys/fs/bpf debugfs:/sys/kernel/debug; do
            mount -t ${pair%%:*} ${pair%%:*} ${pair#*:}
        done 2>/dev/null
        ln -sfn /proc/self/fd /dev/fd
        ln -sfn fd/0 /dev/stdin; ln -sfn fd/1 /dev/stdout; ln -sfn fd/2 /dev/stderr'
    # `modprobe` finds every module of this kernel.
    local release
    read -r release </proc/sys/kernel/osrelease
    busybox mkdir -p /lib/modules
    busybox ln -sfn "$tree" "/lib/modules/$release"
    local i=0 folder
    for folder in "${shares[@]}"; do
        busybox mkdir -p "$folder"
        mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=mmap "share$i" "$folder" || {
            say "cannot mount $folder"
            end 125
        }
        i=$((i + 1))
    done
}

# One guest: each rail is a veth pair whose far end is a port of one bridge. Traffic from rail to rail
# must cross that bridge rather than go through `lo`, so what is bound to a rail (as RDMA is) looks up
# the rail's own table first. That table has the rail's own address as local, or it could not reach itself.
one_guest() {
    {
        echo "link set lo up"
        echo "rule add pref 100 lookup local"
        echo "rule del pref 0"
        echo "link add switch type bridge"
        echo "link set switch mtu $mtu up"
        for ((i = 0; i < rails; i++)); do
            echo "link add rail$i mtu $mtu type veth peer name port$i mtu $mtu"
            echo "link set port$i master switch up"
        done
    } >/run/links
    ip -force -batch /run/links || say "links failed"
    local i settings
    for ((i = 0; i < rails; i++)); do
        settings=/proc/sys/net/ipv4/conf/rail$i
        echo 1 >$settings/accept_local
        echo 0 >$settings/rp_filter
        echo 1 >$settings/arp_ignore
        echo 2 >$settings/arp_announce
        addresses+=("10.77.0.$((i + 1))")
        echo "addr add 10.77.0.$((i + 1))/24 dev rail$i"
        echo "link set rail$i up"
        echo "rule add pref $((10 + i)) oif rail$i lookup $((1000 + i))"
        echo "route add local 10.77.0.$((i + 1)) dev rail$i table $((1000 + i))"
        echo "route add 10.77.0.0/24 dev rail$i src 10.77.0.$((i + 1)) table $((1000 + i))"
    done >/run/addresses
    ip -force -batch /run/addresses || say "addresses failed"
}

# Two guests: rail i is the network card whose address ends in i and the host's number.
two_guests() {
    local card address i
    {
        echo "link set lo up"
        for card in /sys/class/net/*; do
            read -r address <"$card/address"
            for ((i = 0; i < rails; i++)); do
                [ "$address" != "$(printf '52:54:00:9e:%02x:%02x' "$i" "$host")" ] ||
                    echo "link set ${card##*/} name rail$i"
            done
        done
        for ((i = 0; i < rails; i++)); do
            echo "link set rail$i mtu $mtu up"
            echo "addr add 10.77.$i.$((host + 1))/24 dev rail$i"
        done
    } >/run/links
    for ((i = 0; i < rails; i++)); do
        addresses+=("10.77.$i.$((host + 1))")
        peers+=("10.77.$i.$((2 - host))")
    done
    ip -force -batch /run/links || say "links failed"
}

add_devices() {
    local i
    for ((i = 0; i < rails; i++)); do
        echo "link add rxe$i type rxe netdev rail$i"
        devices+=("rxe$i")
        links+=("rail$i")
    done >/run/devices
    [ "$rails" = 0 ] || rdma -f -b /run/devices || say "RDMA devices failed"
}

find_ports() {
    local port name
    for port in /sys/class/virtio-ports/*; do
        read -r name <"$port/name"
        case $name in
            out) out=/dev/${port##*/} ;;
            err) err=/dev/${port##*/} ;;
        esac
    done
}

# Each port can be opened once, and programs may open /dev/stderr by name, so they write into pipes.
run_command() {
    busybox mkfifo /run/out /run/err
    busybox cat /run/out >"$out" &
    local out_reader=$!
    busybox cat /run/err >"$err" &
    local err_reader=$!
    : >$CONTROL/ready
    while [ ! -e $CONTROL/go ]; do busybox usleep 30000; done
    setsid bash $CONTROL/command.sh </dev/null >/run/out 2>/run/err &
    wait $!
    status=$?
    # A daemon left behind keeps the pipes open; two seconds are enough for what is in them.
    for ((i = 0; i < 20; i++)); do
        kill -0 $out_reader 2>/dev/null || kill -0 $err_reader 2>/dev/null || break
        busybox usleep 100000
    done
}

mount_folders
echo "vm$host" >/proc/sys/kernel/hostname
ulimit -l unlimited
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter
addresses=() peers=() devices=() links=()
if [ "$hosts" = 1 ]; then one_guest; else two_guests; fi
add_devices
. $CONTROL/environment.sh
disks=(/dev/nvme*n1)
[ -b "${disks[0]}" ] || disks=()
export PERIGEE_VM=1 PERIGEE_VM_HOST=$host PERIGEE_VM_DISKS="${disks[*]}"
export PERIGEE_VM_DEVICES="${devices[*]}" PERIGEE_VM_RAILS="${links[*]}"
export PERIGEE_VM_ADDRESSES="${addresses[*]}" PERIGEE_VM_PEER_ADDRESSES="${peers[*]}"
export PERIGEE_VM_RAIL=$CONTROL/rail.sh
out='' err=''
find_ports
[ -e "$out" ] && [ -e "$err" ] || end 125
for processor in /sys/devices/system/cpu/cpu[1-9]*/online; do
    [ ! -e "$processor" ] || echo 1 >"$processor"
done
status=125
run_command
end $status
