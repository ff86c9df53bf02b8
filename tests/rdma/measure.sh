#!/bin/bash
# Runs in the guest: takes each measurement in turn, round by round, and writes a line for each to FOLDER/results:
#   round  case  value  unit  user%  system%  idle%  (of all processors while it ran, without the start of targets and of
#                                                     Mooncake's bench; sleeping on a ring counts as idle)
#
#   measure.sh FOLDER ROUNDS [MOONCAKE]     FOLDER has the perigee program; MOONCAKE is a folder with its bench
set -u
folder=$1 rounds=$2 mooncake=${3:-}
readonly SECONDS_EACH=4 BIG=1048576 SMALL=4096
# From memory: pages of programs come slowly from the host's disk, and would be what is measured.
busybox mkdir -p /run/bench
busybox cp "$folder/perigee" /run/bench/
perigee=/run/bench/perigee
export PERIGEE_LOG=error
# perftest needs a program to meet at; it meets on the loopback interface.
read -r -a devices <<<"$PERIGEE_VM_DEVICES"
results=$folder/results
: >"$results"

processors() { # prints jiffies: user, system with interrupts, idle with waiting
    local _ user nice system idle wait hard soft
    read -r _ user nice system idle wait hard soft _ </proc/stat
    echo $((user + nice)) $((system + hard + soft)) $((idle + wait))
}

note() { # CASE VALUE UNIT
    local after all
    read -r -a after < <(processors)
    after=($((after[0] - before[0])) $((after[1] - before[1])) $((after[2] - before[2])))
    all=$((after[0] + after[1] + after[2]))
    [ $all -gt 0 ] || all=1
    echo "$round $1 ${2:-failed} $3 $((after[0] * 100 / all)) $((after[1] * 100 / all)) $((after[2] * 100 / all))" |
        busybox tee -a "$results"
}

wait_for_text() { # TEXT FILE
    local tries
    # The first start of a program reads it from the host's disk, which a busy host keeps waiting for long.
    for ((tries = 0; tries < 600; tries++)); do
        grep -qi -- "$1" "$2" && return 0
        busybox usleep 200000
    done
    return 1
}

# perftest says that it waits, but into a buffer: a file shows it only at the end.
wait_for_listener() { # PORT
    local tries port
    port=$(printf ' [0-9A-F]*:%04X [0-9A-F:]* 0A ' "$1")
    for ((tries = 0; tries < 600; tries++)); do
        grep -q -- "$port" /proc/net/tcp /proc/net/tcp6 && return 0
        busybox usleep 100000
    done
    return 1
}

perftest() { # NUMBER TOOL FROM TO ARGUMENTS...: leaves the client's output in /run/bench/client.NUMBER
    local number=$1 tool=$2 from=${devices[$3]} to=${devices[$4]}
    shift 4
    local both=(-x 1 -F -p $((18500 + number)) "$@")
    $tool -d "$to" "${both[@]}" >/run/bench/server.$number 2>&1 &
    local server=$!
    wait_for_listener $((18500 + number))
    $tool -d "$from" "${both[@]}" 127.0.0.1 >/run/bench/client.$number 2>&1
    wait $server
}

column() { # NUMBER COLUMN: of the last row of figures of a perftest client
    grep -E '^ *[0-9]+ +[0-9]+ ' /run/bench/client.$1 | busybox tail -n 1 | busybox awk "{print \$$2}"
}

perftest_rate() { # CASE TOOL: MB/s as 10^6
    read -r -a before < <(processors)
    perftest 0 "$2" 0 2 -s $BIG -n 48 --report_gbits
    note "$1" "$(column 0 4 | busybox awk '{print $1 * 125}')" MB/s
}

perftest_two() { # two rails at once, each with its own pair of programs
    read -r -a before < <(processors)
    perftest 1 ib_write_bw 1 3 -s $BIG -n 48 --report_gbits &
    local other=$!
    perftest 0 ib_write_bw 0 2 -s $BIG -n 48 --report_gbits
    wait $other
    local one two
    one=$(column 0 4) two=$(column 1 4)
    note perftest-write-two-rails "$(echo "$one $two" | busybox awk '{print ($1 + $2) * 125}')" MB/s
}

start_target() { # DEVICES
    $perigee bench nic --role target --transport rdma --device "$1" --buffer 16MiB >/run/bench/target 2>&1 &
    target=$!
    wait_for_text '--peer' /run/bench/target
    peer=$(grep -o -- '--peer [^ ]*' /run/bench/target | busybox head -n 1)
    peer=${peer#--peer }
}

stop_target() {
    kill $target
    wait $target 2>/dev/null
}

# Leaves the row of the total in /run/bench/row, its values behind commas.
initiate() { # DEVICES ARGUMENTS...
    local from=$1
    shift
    $perigee bench nic --role initiator --peer "$peer" --transport rdma --device "$from" --buffer 16MiB \
        --format csv "$@" >/run/bench/initiator 2>&1
    busybox grep ',total,' /run/bench/initiator >/run/bench/row || busybox tail -n 3 /run/bench/initiator
}

field() { # NUMBER
    busybox cut -d, -f"$1" /run/bench/row | busybox head -n 1
}

ours() { # CASE FROM TO ARGUMENTS...
    local name=$1 from=$2 to=$3
    shift 3
    start_target "$to"
    read -r -a before < <(processors)
    initiate "$from" --duration ${SECONDS_EACH}s "$@"
    case $name in
        *latency) note "$name" "$(field 19 | busybox awk '{print $1 / 1000}')" us ;;
        *) note "$name" "$(field 12 | busybox awk '{print $1 / 1000000}')" MB/s ;;
    esac
    stop_target
}

latency() {
    read -r -a before < <(processors)
    perftest 0 ib_write_lat 0 2 -s $SMALL -n 500
    note perftest-write-latency "$(column 0 5)" us
    # The same work as ours: one write at a time, each until its completion. The other one measures half of a ping-pong.
    read -r -a before < <(processors)
    perftest 0 ib_write_bw 0 2 -s $SMALL -n 1000 -t 1 -Q 1 --report_gbits
    note perftest-write-completion "$(column 0 5 | busybox awk '{print 1 / $1}')" us
    ours perigee-write-latency "${devices[0]}" "${devices[2]}" --operation write --size 4KiB --depth 1
    real_latency mooncake-write-latency
}

wait_while_running() { # PROCESS TEXT FILE: false if the process ends without having said it
    while ! grep -qi -- "$2" "$3"; do
        kill -0 "$1" 2>/dev/null || return 1
        busybox usleep 20000
    done
}

# Runs Mooncake's bench. Leaves its MB/s in $moved, its target in $target until `stop_target`, and in $before the
# processors' time when both programs had started.
real() { # OPERATION BLOCK_BYTES BATCH
    local common=(--protocol=rdma --buffer_size=33554432 --block_size="$2" --batch_size="$3" --threads=1
        --metadata_server=http://127.0.0.1:8090/metadata)
    local bench=$mooncake/transfer_engine_bench started='DRAM is used' initiator
    MC_GID_INDEX=1 "$bench" --mode=target "${common[@]}" --device_name="${devices[2]}" \
        --local_server_name=127.0.0.1:12345 >/run/bench/real.target 2>&1 &
    target=$!
    wait_for_text "$started" /run/bench/real.target
    busybox usleep 500000
    read -r -a before < <(processors)
    MC_GID_INDEX=1 busybox timeout 60 "$bench" --mode=initiator "${common[@]}" --device_name="${devices[0]}" \
        --local_server_name=127.0.0.1:12346 --segment_id=127.0.0.1:12345 --operation="$1" \
        --duration=$SECONDS_EACH --report_unit=MB >/run/bench/real 2>&1 &
    initiator=$!
    if wait_while_running $initiator "$started" /run/bench/real; then
        read -r -a before < <(processors)
    fi
    wait $initiator
    moved=$(grep -o 'throughput [0-9.]*' /run/bench/real | busybox tail -n 1 | busybox cut -d' ' -f2)
}

real_rate() { # CASE OPERATION
    [ -n "$mooncake" ] || return 0
    real "$2" $BIG 4
    note "$1" "$moved" MB/s
    stop_target
}

real_latency() { # CASE: its bench prints no latency; with one request at a time the mean follows from the rate
    [ -n "$mooncake" ] || return 0
    real write $SMALL 1
    note "$1" "$(echo "$moved" | busybox awk "\$1 > 0 {print $SMALL / \$1}")" us
    stop_target
}

# A rail is cut while two carry load; every byte is compared. The longest that any operation took bounds the recovery.
cut_rail() {
    start_target "${devices[2]},${devices[3]}"
    read -r -a before < <(processors)
    initiate "${devices[0]},${devices[1]}" --operation write --size 256KiB --depth 4 --duration 8s --verify true &
    local running=$!
    busybox usleep 6000000
    "$PERIGEE_VM_RAIL" cut 1
    wait $running
    note cut-rail-longest-operation "$(busybox grep ',total,' /run/bench/initiator | busybox cut -d, -f16 |
        busybox awk '{print $1 / 1000000}')" ms
    note cut-rail-typical-operation "$(field 19 | busybox awk '{print $1 / 1000000}')" ms
    note cut-rail-wrong-bytes "$(field 14)" operations
    "$PERIGEE_VM_RAIL" join 1
    stop_target
}

# Two rails of which one carries a quarter, each alone and both together: less than the processors move, and enough
# that Soft-RoCE's acknowledgements, one for 256 KiB, come before they are taken for lost.
throttle() {
    "$PERIGEE_VM_RAIL" rate 0 240mbit
    "$PERIGEE_VM_RAIL" rate 1 60mbit
    ours throttled-fast-alone "${devices[0]}" "${devices[2]}" --operation write --size 1MiB
    ours throttled-slow-alone "${devices[1]}" "${devices[3]}" --operation write --size 1MiB
    ours throttled-together "${devices[0]},${devices[1]}" "${devices[2]},${devices[3]}" --operation write --size 1MiB
    clear_rails
}

# Two rails of the same speed, less than the processors move: what the second one adds.
scale() {
    "$PERIGEE_VM_RAIL" rate 0 160mbit
    "$PERIGEE_VM_RAIL" rate 1 160mbit
    ours limited-one-rail "${devices[0]}" "${devices[2]}" --operation write --size 1MiB
    ours limited-two-rails "$both_from" "$both_to" --operation write --size 1MiB
    clear_rails
}

clear_rails() {
    "$PERIGEE_VM_RAIL" clear 0
    "$PERIGEE_VM_RAIL" clear 1
}

if [ -n "$mooncake" ]; then
    $perigee metadata --port 8090 >/run/bench/metadata 2>&1 &
fi
both_from=${devices[0]},${devices[1]} both_to=${devices[2]},${devices[3]}
for ((round = 1; round <= rounds; round++)); do
    perftest_rate perftest-write ib_write_bw
    ours perigee-write "${devices[0]}" "${devices[2]}" --operation write --size 1MiB
    real_rate mooncake-write write
    perftest_rate perftest-read ib_read_bw
    ours perigee-read "${devices[0]}" "${devices[2]}" --operation read --size 1MiB
    real_rate mooncake-read read
    latency
    ours perigee-write-two-rails "$both_from" "$both_to" --operation write --size 1MiB
    perftest_two
done
round=1
cut_rail
throttle
scale
