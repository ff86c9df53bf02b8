#!/bin/bash
# Runs in the guest: each command of the list given, one a line behind its name. Names those that failed.
set -u
failed=()
while read -r name command; do
    read -r started _ </proc/uptime
    echo "== $name"
    # shellcheck disable=SC2086  # a command with its arguments
    $command </dev/null
    status=$?
    read -r ended _ </proc/uptime
    echo "== $name: status $status after $((${ended%.*} - ${started%.*})) s"
    [ $status = 0 ] || failed+=("$name")
done <"$1"
[ ${#failed[@]} = 0 ] && exit 0
echo "rdma: failed: ${failed[*]}" >&2
exit 1
