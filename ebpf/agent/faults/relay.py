"""A wire between two hosts that can be made slow or lossy: two tap devices and a process that carries frames between them.

Usage: relay.py NEAR FAR. Prints "ready" when both devices exist; the caller then moves each to its network namespace. Lines on
standard input set the delay of frames from NEAR to FAR, in microseconds, and how many of a thousand frames of both directions
are lost. This kernel has no netem, and a tap device without offloads carries whole frames with checksums, so the stacks on both
ends see a plain slow or lossy NIC.

Runs with real-time priority: a busy machine must not add delays of its own to one wire and not to the other.
"""

import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
FRAME_BYTES_MAX = 65_600
FRAMES_MAX = 4096
PRIORITY = 40


def tap(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


class Wire:
    def __init__(self, near, far):
        self.near, self.far = near, far
        self.delay = 0.0
        self.loss = 0.0
        self.waiting = []
        self.count = 0

    def carry(self, source, target, delay):
        """Takes all frames off one device; gives them to the other at once or later."""
        while len(self.waiting) < FRAMES_MAX:
            try:
                frame = os.read(source, FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            if self.loss and random.random() < self.loss:
                continue
            if delay:
                self.count += 1
                heapq.heappush(self.waiting, (time.monotonic() + delay, self.count, target, frame))
            else:
                give(target, frame)

    def give_due(self):
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            _, _, target, frame = heapq.heappop(self.waiting)
            give(target, frame)

    def patience(self):
        if not self.waiting:
            return None
        return max(0.0, self.waiting[0][0] - time.monotonic())


def give(target, frame):
    try:
        os.write(target, frame)
    except OSError:
        # The device is down or its queue is full: the frame is lost, as on a wire.
        pass


def main():
    near_name, far_name = sys.argv[1:]
    wire = Wire(tap(near_name), tap(far_name))
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    print("ready", flush=True)
    orders = sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([wire.near, wire.far, orders], [], [], wire.patience())
        wire.give_due()
        if orders in ready:
            line = sys.stdin.readline()
            if not line:
                return
            microseconds, per_mille = map(int, line.split())
            wire.delay, wire.loss = microseconds / 1e6, per_mille / 1e3
        if wire.near in ready:
            wire.carry(wire.near, wire.far, wire.delay)
        if wire.far in ready:
            wire.carry(wire.far, wire.near, 0.0)


if __name__ == "__main__":
    main()
