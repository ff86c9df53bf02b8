//! Keywords of `mooncake.store`.

use super::vocabulary::{Vocabulary, WordKind};
use crate::mooncake::Entry;
use crate::mooncake::MooncakeEffect::{Honoured, NotBuilt, NotNeeded};

/// Keywords of `setup`, in the order of its positions.
pub const SETUP_KEYWORDS: [Entry; 13] = [
    (&["local_hostname"], Honoured("name of this client")),
    (&["metadata_server"], Honoured("P2PHANDSHAKE, or address of a metadata server")),
    (&["global_segment_size"], Honoured("memory to lend")),
    (&["local_buffer_size"], Honoured("size of the local buffer")),
    (&["protocol"], Honoured("tcp, rdma or shm; others are refused by name")),
    (&["rdma_devices"], Honoured("RDMA devices to use")),
    (&["master_server_addr"], Honoured("address of the master")),
    (&["engine"], Honoured("runs as long as the store, whose bytes go over its own connections")),
    (&["enable_ssd_offload"], Honoured("keeps on disks what memory has no room for")),
    (&["ssd_offload_path"], Honoured("folder on a disk, or several and commas")),
    (&["tenant_id"], Honoured("tenant whose keys this client means")),
    (&["enable_client_http_server"], Honoured("health and metrics over HTTP")),
    (&["client_http_port"], Honoured("port of that")),
];

/// Attributes of `ReplicateConfig`.
pub const REPLICATE_CONFIG: &[Entry] = &[
    (&["replica_num"], Honoured("copies in memory, on distinct segments")),
    (&["with_hard_pin"], Honoured("is never evicted")),
    (&["with_soft_pin"], Honoured("older spelling of soft_pin_action ENABLE")),
    (&["soft_pin_action"], Honoured("whether it is evicted after what has no soft pin")),
    (&["soft_pin_ttl_ms"], Honoured("how long it has a soft pin")),
    (&["preferred_segments"], Honoured("segments that are tried first, in this order")),
    (&["preferred_segment"], Honoured("older spelling: one segment, before the others")),
    (&["prefer_alloc_in_same_node"], Honoured("keeps a batch on one segment")),
    (&["group_ids"], Honoured("groups of the keys of a batch, one for each")),
    (&["data_type"], NotBuilt("objects are not counted by type")),
    (&["preferred_nof_segments"], NotBuilt(NOF)),
    (&["nof_replica_num"], NotBuilt("NVMe-oF segments; a put with more than 0 answers -1012")),
    (&["dfs_replica_num"], NotBuilt("DFS tier; a put with more than 0 answers -1012")),
];

const NOF: &str = "NVMe-oF segments";

const MOUNTS: &[Entry] = &[
    (&["size"], Honoured("bytes to lend")),
    (&["path", "offset"], Honoured("file to lend, and where its lent bytes begin")),
    (&["location"], Honoured("cpu:N is memory of that NUMA node; another one gives a line")),
    (&["protocol"], NotNeeded("a segment has the protocols of its store")),
];

const UNMOUNTS: &[Entry] = &[
    (&["segment_ids"], Honoured("segments that are withdrawn")),
    (&["grace_period_seconds"], Honoured("seconds for which they stay readable")),
];

const CALLS: &[Entry] = &[
    (&["key", "keys", "base_keys", "all_keys"], Honoured("objects of the call")),
    (&["value", "values"], Honoured("their bytes")),
    (&["tensor", "tensors_list"], Honoured("their tensors, or those that a get fills")),
    (&["config"], Honoured("a ReplicateConfig")),
    (
        &["buffer_ptr", "buffer_ptrs", "all_buffer_ptrs", "metadata_buffer_ptr"],
        Honoured("addresses of buffers"),
    ),
    (&["size", "sizes", "all_sizes", "metadata_size"], Honoured("bytes of those buffers")),
    (&["all_src_offsets", "all_dst_offsets"], Honoured("where the bytes begin")),
    (&["force"], Honoured("removes objects with a lease, too")),
    (&["regex_pattern"], Honoured("objects to remove, in linear time: no backreferences")),
    (&["segment_name"], Honoured("segment whose replicas are dropped")),
    (&["source"], Honoured("segment that a move leaves")),
    (&["target", "targets"], Honoured("where a task copies to; what a get of parts returns")),
    (&["task_id"], Honoured("task that is asked for")),
    (&["file_name"], Honoured("safetensors file")),
    (&["tp_rank"], Honoured("part that a get returns; a put stores the parts of all ranks")),
    (&["tp_size"], Honoured("number of parts")),
    (&["split_dim"], Honoured("dimension that a put splits; a get finds it with the parts")),
    (&["parallelism", "parallelisms"], Honoured("axes along which the tensor is split")),
    (&["writer_partition", "writer_partitions"], Honoured("part that this call writes")),
    (&["prefer_alloc_in_same_node"], NotNeeded("all keys of a batch are in flight together")),
];

const POOLS: &[Entry] = &[
    (&["store"], Honoured("store whose buffers these are")),
    (&["max_bytes", "max_regions"], Honoured("bound of the memory, and of its pieces")),
    (&["min_size_class", "max_size_class"], Honoured("bytes that sizes are rounded up to")),
    (&["alignment"], Honoured("alignment of buffers")),
    (&["block_on_exhaustion", "block"], Honoured("waits for a buffer when none is free")),
    (&["default_timeout", "timeout"], Honoured("longest such wait, in seconds")),
    (&["prewarm_size", "prewarm_count", "count"], Honoured("buffers that are made ahead")),
    (&["size"], Honoured("bytes of a buffer")),
];

pub(super) const VOCABULARIES: &[Vocabulary] = &[
    Vocabulary { kind: WordKind::Keyword, taken_by: "setup", entries: &SETUP_KEYWORDS },
    Vocabulary {
        kind: WordKind::Keyword,
        taken_by: "setup_dummy",
        entries: &[
            (&["mem_pool_size"], Honoured("bytes that alloc_from_mem_pool hands out")),
            (&["local_buffer_size"], Honoured("size of the local buffer")),
            (&["server_address"], Honoured("host:port of a mooncake_client, or unix:/PATH")),
        ],
    },
    Vocabulary {
        kind: WordKind::Keyword,
        taken_by: "mount_segment, allocate_and_mount_segment",
        entries: MOUNTS,
    },
    Vocabulary {
        kind: WordKind::Keyword,
        taken_by: "unmount_segment, unmount_and_free_segment, unmount_local_disk_segment",
        entries: UNMOUNTS,
    },
    Vocabulary {
        kind: WordKind::Keyword,
        taken_by: "other calls of MooncakeDistributedStore",
        entries: CALLS,
    },
    Vocabulary { kind: WordKind::Keyword, taken_by: "ReplicateConfig", entries: REPLICATE_CONFIG },
    Vocabulary { kind: WordKind::Keyword, taken_by: "BufferPool", entries: POOLS },
    Vocabulary {
        kind: WordKind::Keyword,
        taken_by: "EngramStore",
        entries: &[
            (&["layer_id"], Honoured("layer whose tables these are")),
            (&["config"], Honoured("an EngramStoreConfig")),
            (&["store"], Honoured("store that keeps them")),
            (&["embedding_buffers"], Honoured("rows to store")),
            (&["row_ids"], Honoured("rows to read")),
            (&["force"], Honoured("removes objects with a lease, too")),
        ],
    },
];
