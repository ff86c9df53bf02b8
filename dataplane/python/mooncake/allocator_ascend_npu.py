"""An allocator of memory of Ascend devices. Not built: importing it raises ImportError."""

from ._not_built import refuse_import

refuse_import(
    __name__,
    "the allocator needs Ascend devices",
)
