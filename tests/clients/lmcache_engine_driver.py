"""LMCache's transfer channel over the transfer engine: a reader pulls from a peer's memory."""

import socket
import time

import torch
from lmcache.v1.distributed.internal_api import L1MemoryDesc
from lmcache.v1.distributed.transfer_channel.impl.mooncake_te_impl import (
    MooncakeTeTransferChannelContext,
)
from patterns import pattern

HOST = "127.0.0.1"
OBJECTS = 32
OBJECT_BYTES = 100_000
ALIGNMENT_BYTES = 64
DEADLINE_SECONDS = 30
POLL_SECONDS = 0.001


def start(memory):
    with socket.socket() as free:
        free.bind((HOST, 0))
        url = f"{HOST}:{free.getsockname()[1]}"
    described = L1MemoryDesc(
        ptr=memory.data_ptr(), size=memory.nbytes, align_bytes=ALIGNMENT_BYTES
    )
    return MooncakeTeTransferChannelContext(described, url, url)


def owner(meet):
    memory = torch.stack([pattern(f"object-{it}", OBJECT_BYTES) for it in range(OBJECTS)])
    before = memory.clone()
    context = start(memory)
    meet(url=context.advertise_url)
    assert torch.equal(memory, before)
    context.close()
    return None


def wait_for(client, task):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        result = client.query_read_status(task)
        if result.finished:
            return result.succeeded_mask
        time.sleep(POLL_SECONDS)
    raise AssertionError("the read did not end")


def reader(meet, url):
    memory = torch.zeros(OBJECTS, OBJECT_BYTES, dtype=torch.uint8)
    context = start(memory)
    client = context.get_transfer_channel_client(url)
    places = [(it * OBJECT_BYTES, OBJECT_BYTES) for it in range(OBJECTS)]
    here = context.get_transfer_channel_address(places)
    there = context.get_transfer_channel_address(places[::-1])
    tasks = [client.submit_read(here[:5], there[:5]), client.submit_read(here[5:], there[5:])]
    assert [all(wait_for(client, task)) for task in tasks] == [True, True]
    for it in range(OBJECTS):
        expected = pattern(f"object-{OBJECTS - 1 - it}", OBJECT_BYTES)
        assert torch.equal(memory[it], expected), f"object {it}"
    # Past the end of what the peer registered: refused at once or at the end, and nothing is read.
    client._remote_buffer_ptr += OBJECT_BYTES
    try:
        succeeded = wait_for(client, client.submit_read(here[:1], there[:1]))
    except RuntimeError:
        succeeded = [False]
    assert succeeded == [False]
    assert torch.equal(memory[0], pattern(f"object-{OBJECTS - 1}", OBJECT_BYTES))
    assert context.get_num_connected_clients() == 1
    context.close()
    return OBJECTS
