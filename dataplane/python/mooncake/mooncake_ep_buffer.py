"""Buffers of expert parallelism. Not built: importing it raises ImportError."""

from ._not_built import refuse_import

refuse_import(
    __name__,
    "expert parallelism needs kernels for accelerators",
)
