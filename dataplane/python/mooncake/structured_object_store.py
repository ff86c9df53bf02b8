"""Structured objects in the store: mappings of arrays, tensors and rows, read whole or in parts.

`MooncakeBundleTransfer` puts and reads them. A stored batch (verl's DataProto, or a dict of
columns) is known by a `MooncakeDataProtoRef`, which `export_ref` turns into values that JSON can
hold. numpy is needed; torch for tensors, msgpack for rows of dicts and lists, pillow for images.
"""

from ._structured.handle import (
    DataProtoRefLike,
    export_dataproto_ref,
    import_dataproto_ref,
    is_dataproto_ref_handle,
)
from ._structured.inference import MISSING, infer_structure
from ._structured.inference import choose_codec as _choose_leaf_codec
from ._structured.inference import escape_key as _escape_key
from ._structured.manifest import decode as _decode_manifest
from ._structured.model import DEFAULT_CHUNK_BYTES as DEFAULT_BUNDLE_CHUNK_BYTES
from ._structured.model import (
    BundleStore,
    BundleTransferPolicy,
    FieldSchema,
    MooncakeDataProtoRef,
    RemoteBundleRef,
    StructuredFieldLocation,
    StructuredMemberSlice,
    StructuredObjectPayload,
    StructuredObjectReadSpec,
    StructuredObjectResult,
)
from ._structured.sources import ScatteredPayload as _MultiBufferPayload
from ._structured.sources import raw_destination, tensor_object_buffer
from ._structured.transfer import MooncakeBundleTransfer
from ._structured.writer import PARALLEL_MIN_BYTES as AUTO_PARALLEL_MIN_BYTES
from ._structured.writer import PARALLEL_MIN_CHUNKS as AUTO_PARALLEL_MIN_CHUNKS

export_ref = export_dataproto_ref
import_ref = import_dataproto_ref

__all__ = [
    "AUTO_PARALLEL_MIN_BYTES",
    "AUTO_PARALLEL_MIN_CHUNKS",
    "DEFAULT_BUNDLE_CHUNK_BYTES",
    "MISSING",
    "BundleStore",
    "BundleTransferPolicy",
    "DataProtoRefLike",
    "FieldSchema",
    "MooncakeBundleTransfer",
    "MooncakeDataProtoRef",
    "RemoteBundleRef",
    "StructuredFieldLocation",
    "StructuredMemberSlice",
    "StructuredObjectPayload",
    "StructuredObjectReadSpec",
    "StructuredObjectResult",
    "export_dataproto_ref",
    "export_ref",
    "import_dataproto_ref",
    "import_ref",
    "infer_structure",
    "is_dataproto_ref_handle",
    "raw_destination",
    "tensor_object_buffer",
]
