"""Mooncake's side of test_tensor_interoperation.py: headers that it makes, tensors that it reads.

Reads one JSON document from standard input and writes one. `torch` is the stand-in, because
Mooncake's package has none beside it.
"""

import json
import sys

import numpy
import torch_stand_in as torch

sys.modules["torch"] = torch

from mooncake.store import _deserialize_tensor, _serialize_tensor, _tensor_metadata_size


def made(wanted):
    """The object of a tensor of zeros."""
    dtype = getattr(torch, wanted["dtype"])
    tensor = torch.Tensor(numpy.zeros(wanted["shape"], dtype.numpy), dtype)
    header, _, size, _owner = _serialize_tensor(tensor)
    return (header + bytes(size)).hex()


def read(value):
    """What Mooncake finds in an object; None if that is no tensor to it."""
    try:
        tensor = _deserialize_tensor(bytes.fromhex(value))
    except ValueError:
        return None
    data = tensor.array.tobytes().hex()
    return {"dtype": tensor.dtype.name, "shape": list(tensor.shape), "data": data}


asked = json.load(sys.stdin)
answer = {
    "bytes": _tensor_metadata_size(),
    "made": [made(wanted) for wanted in asked["make"]],
    "read": [read(value) for value in asked["read"]],
}
json.dump(answer, sys.stdout)
