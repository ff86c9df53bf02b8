"""Tensors as members: tensor objects, raw header and data, torch's own format, jagged tensors.

torch is imported when a tensor is written or read. Loading never runs stored code.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _tensor
from .sources import ScatteredPayload

TORCH_SAVE = "torch_save"
TENSOR_PARTS = "tensor_parts"


def torch() -> Any:
    """Import torch; ImportError says what is missing."""
    try:
        import torch as module
    except ImportError:
        raise ImportError("this member is a tensor: install torch to read or write it") from None
    return module


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor; without torch loaded there is none."""
    module = sys.modules.get("torch")
    return module is not None and isinstance(value, module.Tensor)


def dtype_of(name: str) -> Any:
    """Return the dtype of a name such as "torch.float32"; ValueError for another one."""
    found = getattr(torch(), name.removeprefix("torch."), None)
    if not name.startswith("torch.") or not isinstance(found, torch().dtype):
        raise ValueError(f"{name!r} is no dtype of torch")
    return found


def saved(value: Any) -> memoryview:
    """Return a tensor in torch's own format."""
    stream = io.BytesIO()
    torch().save(value, stream)
    return stream.getbuffer()


def loaded(payload: bytes) -> Any:
    """Return the tensor that `saved` wrote; nothing but tensors is loaded."""
    return torch().load(io.BytesIO(payload), weights_only=True)


def has_header(tensor: Any) -> bool:
    """Whether the store's tensor objects can hold this tensor."""
    name = str(tensor.dtype).removeprefix("torch.")
    return name in _tensor.DTYPES and tensor.dim() <= _tensor.MAX_DIMENSIONS


def header_and_data(tensor: Any) -> ScatteredPayload:
    """Return header and data of a tensor, the data where it lies if that is possible."""
    host, header = _tensor.pack(tensor)
    data = _bytes_of(host)
    return ScatteredPayload((memoryview(header), data), (host,))


def from_header(payload: bytes, name: str) -> Any:
    """Return the tensor of header and data; ValueError if they are none."""
    tensor = _tensor.deserialize_tensor(payload)
    if tensor is None:
        raise ValueError(f"member {name!r} has no tensor: its header is not understood")
    return tensor


def empty(spec: Mapping[str, Any], rows: int) -> Any:
    """Return a tensor of `rows` rows for a field's dtype and row shape, not filled."""
    return torch().empty((rows, *spec["shape"][1:]), dtype=dtype_of(spec["dtype"]))


def jagged_field(tensor: Any) -> tuple[dict[str, Any], ScatteredPayload]:
    """Return the specification and payload of a nested tensor; ValueError if it is not jagged."""
    if tensor.layout != torch().jagged:
        raise ValueError("a nested tensor needs layout torch.jagged")
    spec = {"encoding": "torch_tensor", "dtype": str(tensor.dtype), "nested": True}
    lengths = tensor.lengths()
    parts = [tensor.values(), tensor.offsets(), *([] if lengths is None else [lengths])]
    if not all(has_header(part) for part in parts):
        return spec | {"format": TORCH_SAVE}, ScatteredPayload((saved(tensor),))
    packed = [header_and_data(part.detach()) for part in parts]
    spec |= {
        "format": TENSOR_PARTS,
        "part_bytes": [part.nbytes for part in packed],
        "has_lengths": lengths is not None,
        "ragged_idx": int(getattr(tensor, "_ragged_idx", 1)),
    }
    buffers = tuple(buffer for part in packed for buffer in part.buffers)
    return spec, ScatteredPayload(buffers, tuple(packed))


def from_jagged(payload: bytes, spec: Mapping[str, Any], name: str) -> Any:
    """Return the nested tensor of a field; ValueError if its parts do not fit."""
    if spec.get("format") == TORCH_SAVE:
        return loaded(payload)
    sizes: list[int] = spec.get("part_bytes") or []
    wanted = 3 if spec.get("has_lengths") else 2
    fits = len(sizes) == wanted and sum(sizes) == len(payload)
    if spec.get("format") != TENSOR_PARTS or not fits:
        raise ValueError(f"the parts of nested tensor {name!r} do not fit its {len(payload)} bytes")
    ends = np.cumsum(sizes)
    parts = [from_header(payload[end - size : end], name) for size, end in zip(sizes, ends)]
    return torch().nested.nested_tensor_from_jagged(
        parts[0],
        offsets=parts[1],
        lengths=parts[2] if wanted == 3 else None,
        jagged_dim=int(spec.get("ragged_idx", 1)),
    )


def jagged_rows(tensor: Any, rows: list[int]) -> Any:
    """Return some rows of a nested tensor as one."""
    chosen = tensor.unbind()
    if rows:
        return torch().nested.as_nested_tensor([chosen[row] for row in rows], layout=torch().jagged)
    values = tensor.values()
    return torch().nested.nested_tensor_from_jagged(
        values[:0],
        offsets=tensor.offsets().new_zeros(1),
    )


def _bytes_of(host: Any) -> memoryview:
    size = host.numel() * host.element_size()
    return memoryview(_tensor.memory(host.data_ptr(), size)).cast("B") if size else memoryview(b"")
