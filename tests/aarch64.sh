#!/usr/bin/env bash
# Runs a test program for aarch64 on this machine: qemu-user, with the libraries of Debian's cross packages.
set -euo pipefail
exec qemu-aarch64-static -L /usr/aarch64-linux-gnu "$@"
