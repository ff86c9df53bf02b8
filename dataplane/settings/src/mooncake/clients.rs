//! Variables of the Python configuration and of store clients.

use super::Group;
use super::MooncakeEffect::{Honoured, NotBuilt, NotNeeded};

pub(super) const CONFIGURATION: Group = Group {
    title: "Python configuration",
    entries: &[
        (&["MOONCAKE_CONFIG_PATH"], Honoured("file that MooncakeConfig reads")),
        (&["MOONCAKE_MASTER"], Honoured("address of the master")),
        (&["MOONCAKE_LOCAL_HOSTNAME"], Honoured("name of this client")),
        (&["MOONCAKE_TE_META_DATA_SERVER"], Honoured("metadata server")),
        (&["MOONCAKE_GLOBAL_SEGMENT_SIZE"], Honoured("memory to lend")),
        (&["MOONCAKE_LOCAL_BUFFER_SIZE"], Honoured("size of the local buffer")),
        (&["MOONCAKE_PROTOCOL"], Honoured("tcp, rdma or shm")),
        (&["MOONCAKE_DEVICE"], Honoured("RDMA devices to use")),
        (&["MOONCAKE_ENABLE_CLIENT_HTTP_SERVER"], Honoured("HTTP port of the client")),
        (&["MOONCAKE_CLIENT_HTTP_PORT"], Honoured("number of that port")),
        (
            &["MOONCAKE_TENANT_ID"],
            Honoured("tenant whose keys this client means, setup keyword tenant_id"),
        ),
        (&["MOONCAKE_OFFLOAD_ENABLED"], Honoured("setup keyword enable_ssd_offload")),
        (
            &["MOONCAKE_OFFLOAD_FILE_STORAGE_PATH"],
            Honoured(
                "folder of objects that memory has no room for, setup keyword ssd_offload_path",
            ),
        ),
        (
            &[
                "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT",
                "VLLM_MOONCAKE_PROTOCOL",
                "VLLM_MOONCAKE_SENDER_WORKERS",
                "VLLM_MOONCAKE_SIDE_CHANNEL_PORT",
            ],
            NotNeeded("read by mooncake_connector_v1; vLLM's own connector reads its own"),
        ),
        (
            &["MOONCAKE_STORE_LIBRARY"],
            NotNeeded("read by Mooncake's Rust package: it may name our libmooncake_store.so"),
        ),
    ],
};

pub(super) const STORE: Group = Group {
    title: "Store clients",
    entries: &[
        (&["MC_RPC_TIMEOUT_MS"], Honoured("longest call to the master")),
        (&["MC_RPC_CONNECT_TIMEOUT_MS"], Honoured("longest connect to the master")),
        (
            &["MC_RPC_PROTOCOL"],
            Honoured("transport of calls; only tcp is built, rdma gives a warning"),
        ),
        (
            &["MC_STORE_CLIENT_MIN_PORT", "MC_STORE_CLIENT_MAX_PORT"],
            Honoured("range of data ports"),
        ),
        (&["MC_STORE_NUMA_SOCKET_ID"], Honoured("NUMA node of lent memory")),
        (&["MC_STORE_USE_HUGEPAGE"], Honoured("lends huge pages")),
        (&["MC_STORE_HUGEPAGE_SIZE"], Honoured("size of huge pages")),
        (&["MC_STORE_CLIENT_METRIC"], Honoured("metrics on the HTTP port of the client")),
        (
            &["MC_STORE_CLIENT_METRIC_INTERVAL"],
            Honoured("line of throughput and latency in the log"),
        ),
        (
            &["MC_STORE_CLIENT_METRIC_BANDWIDTH"],
            NotNeeded("rates follow from the byte counters of the HTTP port"),
        ),
        (
            &["MC_STORE_CLUSTER_ID"],
            Honoured("cluster whose objects a disk keeps; metrics have no label for it"),
        ),
        (&["MC_STORE_CLIENT_SETUP_RETRIES"], NotNeeded("a data port is bound before it is named")),
        (
            &["MOONCAKE_STORE_CHECKSUM"],
            NotNeeded("each object has a checksum, and each read checks it"),
        ),
        (
            &["MC_STORE_MEMCPY"],
            NotNeeded("memory of this process is copied directly; PERIGEE_SAME_PROCESS=0 ends it"),
        ),
        (&["MC_STORE_REPLICA_SCORING"], NotNeeded("the nearest replica is read first")),
        (
            &[
                "MC_STORE_LOCAL_HOT_CACHE_SIZE",
                "MC_STORE_LOCAL_HOT_BLOCK_SIZE",
                "MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD",
                "MC_STORE_LOCAL_HOT_CACHE_USE_SHM",
            ],
            NotBuilt("clients keep no copies of hot objects"),
        ),
        (
            &["MC_MMAP_ARENA_POOL_SIZE", "MC_DISABLE_MMAP_ARENA"],
            NotNeeded("a segment is one mapping; there is no arena"),
        ),
        (
            &["MC_STORE_PIN_MEMORY_MAX_BYTES", "MC_STORE_PINNED_RESTORE_ARENA_SIZE_BYTES"],
            NotBuilt("segments are not pinned for accelerators"),
        ),
        (
            &[
                "MC_RPC_CLIENT_IO_THREADS",
                "MC_STORE_RPC_CLIENT_IO_THREADS",
                "MC_TE_RPC_CLIENT_IO_THREADS",
            ],
            NotNeeded("calls have no threads of their own"),
        ),
        (&["POD_NAME", "POD_NAMESPACE"], Honoured("pod that servers name in their log")),
        (&["KUBECONFIG"], NotNeeded("no program calls the API of Kubernetes")),
    ],
};
