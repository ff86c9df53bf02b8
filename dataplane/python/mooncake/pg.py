"""The process group for torch. Not built: importing it raises ImportError."""

from ._not_built import refuse_import

refuse_import(
    __name__,
    "the process group for torch needs kernels for accelerators",
)
