"""Write bytes into the memory of another process with the transfer engine.

Usage: python engine_write.py target          prints its name and the address of its buffer
       python engine_write.py write NAME ADDRESS

The target waits until the bytes are there, checks them and ends.
"""

import ctypes
import sys
import time

from mooncake.engine import TransferEngine

HOST = "127.0.0.1"  # the address by which the other process reaches this one
BYTES = 1 << 20
DEADLINE_SECONDS = 60


def start():
    """Return a running engine and a registered buffer of zeros."""
    engine = TransferEngine()
    if engine.initialize(HOST, "P2PHANDSHAKE", "tcp", "") != 0:
        sys.exit("the engine did not start; the log names the reason")
    buffer = ctypes.create_string_buffer(BYTES)
    assert engine.register_memory(ctypes.addressof(buffer), BYTES) == 0
    return engine, buffer


def target():
    engine, buffer = start()
    print(f"{HOST}:{engine.get_rpc_port()} {ctypes.addressof(buffer)}", flush=True)
    deadline = time.monotonic() + DEADLINE_SECONDS
    # A notify follows when all bytes of a batch have arrived.
    while not (notifies := engine.get_notifies()):
        if time.monotonic() > deadline:
            sys.exit("no bytes arrived")
        time.sleep(0.01)
    assert buffer.raw == b"\x07" * BYTES
    print(f"received {BYTES} bytes, then the message {notifies[0].msg!r}")
    engine.unregister_memory(ctypes.addressof(buffer))


def write(name, address):
    from mooncake.engine import TransferNotify

    engine, buffer = start()
    ctypes.memset(buffer, 7, BYTES)
    code = engine.transfer_sync(
        name,
        ctypes.addressof(buffer),
        address,
        BYTES,
        TransferEngine.TransferOpcode.Write,
        TransferNotify("example", "done"),
    )
    if code != 0:
        sys.exit("the write failed; the log names the reason")
    print(f"wrote {BYTES} bytes to {name}")
    engine.unregister_memory(ctypes.addressof(buffer))


if __name__ == "__main__":
    if sys.argv[1:] == ["target"]:
        target()
    elif len(sys.argv) == 4 and sys.argv[1] == "write":
        write(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(__doc__)
