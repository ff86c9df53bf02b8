"""vLLM's client of the shared store for encoder outputs."""

import json
import os

import torch
from vllm.distributed.ec_transfer.ec_connector.mooncake_store_embedding.data import TensorSpec
from vllm.distributed.ec_transfer.ec_connector.mooncake_store_embedding.store_client import (
    EmbeddingStoreOperationError,
    create_mooncake_embedding_store_client,
)

HIDDEN = 256
#: Name of the embedding, tokens, type. The last ones do not fit into one read buffer together.
EMBEDDINGS = [
    ("one-token", 1, torch.float32),
    ("half", 33, torch.float16),
    ("brain", 64, torch.bfloat16),
    *[(f"image-{number}", 576, torch.bfloat16) for number in range(8)],
]
READ_BUFFER_BYTES = 1 << 20
LOCAL_BUFFER_BYTES = 16 << 20
SEGMENT_BYTES = 64 << 20


def connect(master, lends_memory):
    with open("mooncake.json", "w") as file:
        json.dump(
            {
                "metadata_server": "P2PHANDSHAKE",
                "master_server_address": master,
                "protocol": "tcp",
                "mode": "embedded" if lends_memory else "standalone-store",
                "global_segment_size": "64MB" if lends_memory else 0,
                "local_buffer_size": LOCAL_BUFFER_BYTES,
            },
            file,
        )
    os.environ["MOONCAKE_CONFIG_PATH"] = os.path.abspath("mooncake.json")
    os.environ["MOONCAKE_REQUESTER_LOCAL_HOSTNAME"] = "127.0.0.1"
    return create_mooncake_embedding_store_client(read_buffer_bytes=READ_BUFFER_BYTES)


def embedding(number):
    _, tokens, dtype = EMBEDDINGS[number]
    generator = torch.Generator().manual_seed(number)
    return torch.randn((tokens, HIDDEN), generator=generator).to(dtype)


def specs():
    return {
        name: TensorSpec(
            shape=(tokens, HIDDEN), dtype=str(dtype), nbytes=tokens * HIDDEN * dtype.itemsize
        )
        for name, tokens, dtype in EMBEDDINGS
    }


def write(meet, master, http_port, lends_memory):
    client = connect(master, lends_memory)
    names = [name for name, _, _ in EMBEDDINGS]
    assert client.batch_exists(names) == [False] * len(names)
    for number, name in enumerate(names):
        client.put_tensor(name, embedding(number))
    assert client.batch_exists([*names, "absent"]) == [True] * len(names) + [False]
    # The same content again, as another encoder would store it.
    client.put_tensor(names[0], embedding(0))
    try:
        client.put_tensor("flat", torch.zeros(4))
    except EmbeddingStoreOperationError:
        pass
    else:
        raise AssertionError("a flat tensor was stored")
    meet()
    client.close()
    return None


def read(meet, master, http_port):
    client = connect(master, lends_memory=False)
    expected = {**specs(), "absent": TensorSpec((2, HIDDEN), "torch.float16", 4 * HIDDEN)}
    loaded = client.load_tensors(expected, "cpu")
    assert set(loaded) == set(specs())
    for number, (name, _, _) in enumerate(EMBEDDINGS):
        assert loaded[name].dtype == embedding(number).dtype
        assert torch.equal(loaded[name], embedding(number)), name
    # An object of another shape or size than expected is a miss, not an error.
    name = EMBEDDINGS[1][0]
    wrong = {name: TensorSpec((34, HIDDEN), "torch.float16", 34 * HIDDEN * 2)}
    assert client.load_tensors(wrong, "cpu") == {}
    smaller = {name: TensorSpec((32, HIDDEN), "torch.float16", 32 * HIDDEN * 2)}
    assert client.load_tensors(smaller, "cpu") == {}
    client.close()
    return len(loaded)
