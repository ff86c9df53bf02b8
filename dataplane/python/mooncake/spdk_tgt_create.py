"""Targets of SPDK. Not built: importing it raises ImportError."""

from ._not_built import refuse_import

refuse_import(
    __name__,
    "NVMe over fabrics has no targets here, a node lends its disks with --enable_offload",
)
