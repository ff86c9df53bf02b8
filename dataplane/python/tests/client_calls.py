"""The calls that SGLang 0.5.23, vLLM 0.33 and LMCache 0.5.6 make, by class.

Each entry is (method, positional arguments, keywords): a form that must bind. The values only stand
for their number; types are checked by the tests of each call.
"""

SEVEN = ("host", "P2PHANDSHAKE", 0, 0, "tcp", "", "127.0.0.1:50051")

STORE = [
    ("setup", SEVEN, {}),
    ("setup", SEVEN + (None,), {}),
    ("setup", ({"local_hostname": "host"},), {}),
    ("setup_dummy", (1, 2, "127.0.0.1:50052"), {}),
    ("close", (), {}),
    ("health_check", (), {}),
    ("get_hostname", (), {}),
    ("register_buffer", (1, 2), {}),
    ("unregister_buffer", (1,), {}),
    ("alloc_from_mem_pool", (1,), {}),
    ("put", ("key", b"value"), {}),
    ("put", ("key", b"value", None), {}),
    ("put_parts", ("key", b"a", b"b"), {"config": None}),
    ("put_from", ("key", 1, 2, None), {}),
    ("put_from", (), {"key": "key", "buffer_ptr": 1, "size": 2, "config": None}),
    ("get", ("key",), {}),
    ("get_buffer", ("key",), {}),
    ("batch_get_buffer", (["key"],), {}),
    ("get_into", ("key", 1, 2), {}),
    ("is_exist", ("key",), {}),
    ("batch_is_exist", (["key"],), {}),
    ("batch_put_from", (["key"], [1], [2]), {}),
    ("batch_put_from", (["key"], [1], [2], None), {}),
    ("batch_get_into", (["key"], [1], [2]), {}),
    ("batch_put_from_multi_buffers", (["key"], [[1]], [[2]]), {}),
    ("batch_put_from_multi_buffers", (["key"], [[1]], [[2]], None), {}),
    ("batch_get_into_multi_buffers", (["key"], [[1]], [[2]]), {}),
    ("batch_get_into_multi_buffers", (["key"], [[1]], [[2]], True), {}),
    ("batch_get_session_start", (["key"],), {}),
    ("batch_get_into_multi_buffer_ranges", (["key"], [[1]], [[2]], [[0]]), {}),
    ("batch_get_session_end", (["key"],), {}),
    ("batch_get_replica_desc", (["key"],), {}),
    ("remove", ("key",), {}),
    ("remove", ("key", True), {}),
    ("batch_remove", (["key"],), {}),
    ("remove_all", (), {}),
    ("remove_all", (), {"force": True}),
    ("mount_segment", ("path", 1, 0, "tcp", ""), {}),
    ("unmount_segment", (["id"], 0), {}),
    ("allocate_and_mount_segment", (1, "tcp", ""), {}),
    ("unmount_and_free_segment", (["id"], 0), {}),
    ("unmount_local_disk_segment", (0,), {}),
]

# The rest of the class: names with their parameters.
STORE_PARAMETERS = {
    "put_batch": "keys values config",
    "put_from_with_metadata": "key buffer_ptr metadata_buffer_ptr size metadata_size config",
    "upsert": "key value config",
    "upsert_from": "key buffer_ptr size config",
    "upsert_parts": "key args config",
    "upsert_batch": "keys values config",
    "batch_upsert_from": "keys buffer_ptrs sizes config",
    "get_batch": "keys",
    "get_size": "key",
    "get_into_ranges": "buffer_ptrs all_keys all_dst_offsets all_src_offsets all_sizes",
    "batch_put_session_start": "keys sizes config",
    "batch_put_from_multi_buffer_ranges": "keys all_buffer_ptrs all_sizes all_dst_offsets",
    "batch_put_session_end": "keys",
    "batch_put_session_revoke": "keys",
    "batch_replica_clear": "keys segment_name",
    "get_replica_desc": "key",
    "remove_by_regex": "regex_pattern force",
    "create_copy_task": "key targets",
    "create_move_task": "key source target",
    "query_task": "task_id",
    "init_all": "protocol device_name mount_segment_size",
    "get_offload_rpc_read_count": "",
    "has_disks": "",
    "save_to_disks": "seconds",
    "put_tensor": "key tensor",
    "get_tensor": "key",
    "batch_put_tensor": "keys tensors_list",
    "batch_get_tensor": "keys",
    "pub_tensor": "key tensor config",
    "batch_pub_tensor": "keys tensors_list config",
    "upsert_tensor": "key tensor",
    "batch_upsert_tensor": "keys tensors_list",
    "upsert_pub_tensor": "key tensor config",
    "batch_upsert_pub_tensor": "keys tensors_list config",
    "put_tensor_from": "key buffer_ptr size",
    "batch_put_tensor_from": "keys buffer_ptrs sizes",
    "upsert_tensor_from": "key buffer_ptr size",
    "batch_upsert_tensor_from": "keys buffer_ptrs sizes",
    "get_tensor_into": "key buffer_ptr size",
    "batch_get_tensor_into": "keys buffer_ptrs sizes",
    "get_tensor_into_cuda": "key tensor",
    "batch_get_tensor_into_cuda": "keys tensors_list",
    "put_tensor_with_tp": "key tensor tp_rank tp_size split_dim",
    "batch_put_tensor_with_tp": "base_keys tensors_list tp_rank tp_size split_dim",
    "pub_tensor_with_tp": "key tensor config tp_rank tp_size split_dim",
    "batch_pub_tensor_with_tp": "base_keys tensors_list config tp_rank tp_size split_dim",
    "get_tensor_with_tp": "key tp_rank tp_size split_dim",
    "batch_get_tensor_with_tp": "base_keys tp_rank tp_size",
    "get_tensor_with_tp_into": "key buffer_ptr size tp_rank tp_size split_dim",
    "batch_get_tensor_with_tp_into": "base_keys buffer_ptrs sizes tp_rank tp_size",
    "put_tensor_with_tp_from": "key buffer_ptr size tp_rank tp_size split_dim",
    "batch_put_tensor_with_tp_from": "base_keys buffer_ptrs sizes tp_rank tp_size split_dim",
    "save_tensor_to_safetensor": "key file_name",
    "load_tensor_from_safetensor": "key file_name",
}

CONFIG_DEFAULTS = {
    "replica_num": 1,
    "nof_replica_num": 0,
    "dfs_replica_num": 0,
    "soft_pin_ttl_ms": None,
    "with_soft_pin": False,
    "with_hard_pin": False,
    "preferred_segments": [],
    "preferred_nof_segments": [],
    "preferred_segment": "",
    "prefer_alloc_in_same_node": False,
    "group_ids": None,
}

MODULE_NAMES = """
BufferDescriptor BufferHandle BufferLease BufferLeaseView BufferPool Descriptor DiskDescriptor
MemoryDescriptor MooncakeDistributedStore MooncakeHostMemAllocator ObjectDataType
RegisteredBufferLease RegisteredBufferLeaseView RegisteredBufferPool ReplicaDescriptor
ReplicaStatus ReplicateConfig SoftPinAction TaskStatus TaskType bind_to_numa_node get_alloc_func_addr get_free_func_addr _serialize_tensor
_deserialize_tensor _tensor_metadata_size
""".split()

ENUMS = {
    "ObjectDataType": "UNKNOWN KVCACHE TENSOR WEIGHT SAMPLE ACTIVATION GRADIENT OPTIMIZER_STATE "
    "METADATA GENERAL",
    "SoftPinAction": "PRESERVE ENABLE DISABLE",
    "ReplicaStatus": "UNDEFINED INITIALIZED PROCESSING COMPLETE REMOVED FAILED",
    "TaskType": "REPLICA_COPY REPLICA_MOVE",
    "TaskStatus": "PENDING PROCESSING FAILED SUCCESS",
}
