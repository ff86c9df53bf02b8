#!/bin/bash
# Breaks and mends one rail of a guest (one guest, not two).
#   rail.sh down N    the own link goes down: the device says so, queue pairs on it fail
#   rail.sh up N      and comes back, with its routes
#   rail.sh cut N     the far end leaves the switch without a word: nothing arrives
#   rail.sh join N    and returns
#   rail.sh loss N P  P percent of the packets are lost (also: 1%)
#   rail.sh delay N T packets take T longer, as 10ms
#   rail.sh rate N R  the link carries R, as 100mbit
#   rail.sh clear N   ends loss, delay and rate
set -eu
what=$1 n=$2 value=${3:-}
own=10.77.0.$((n + 1))
case $what in
    down) ip link set "rail$n" down ;;
    up)
        ip link set "rail$n" up
        # Routes go away with the link.
        ip route replace local "$own" dev "rail$n" table $((1000 + n))
        ip route replace 10.77.0.0/24 dev "rail$n" src "$own" table $((1000 + n))
        ;;
    cut) ip link set "port$n" nomaster ;;
    join) ip link set "port$n" master switch ;;
    loss) tc qdisc replace dev "rail$n" root netem loss "${value%\%}%" ;;
    delay) tc qdisc replace dev "rail$n" root netem delay "$value" ;;
    rate) tc qdisc replace dev "rail$n" root netem rate "$value" ;;
    clear) tc qdisc del dev "rail$n" root ;;
    *)
        echo "rail: unknown action $what" >&2
        exit 2
        ;;
esac
