//! Variables of what keeps objects outside of memory: SSD, shared files, snapshots, NVMe.

use super::Group;
use super::MooncakeEffect::{Honoured, NotBuilt, NotNeeded};

pub(super) const SSD: Group = Group {
    title: "SSD tier",
    entries: &[
        (
            &[
                "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES",
                "MOONCAKE_OFFLOAD_BUCKET_MAX_TOTAL_SIZE",
                "MOONCAKE_BUCKET_MAX_TOTAL_SIZE",
            ],
            Honoured("most bytes on the disks of a client"),
        ),
        (
            &["MOONCAKE_OFFLOAD_BUCKET_SIZE_LIMIT_BYTES"],
            Honoured("bytes of a segment of the log, 16 MiB to 1 GiB"),
        ),
        (
            &["MOONCAKE_OFFSET_EVICTION_POLICY", "MOONCAKE_OFFSET_MAX_EVICT_PER_OFFLOAD"],
            NotNeeded("a full log uses its oldest segment again"),
        ),
        (
            &["MOONCAKE_BUCKET_EVICTION_POLICY", "MOONCAKE_OFFLOAD_BUCKET_EVICTION_POLICY"],
            Honoured("fifo is what is done; none and lru are warned of, others are refused"),
        ),
        (
            &[
                "ENABLE_EVICTION",
                "MOONCAKE_DISK_EVICTION_HIGH_WATERMARK_RATIO",
                "MOONCAKE_DISK_EVICTION_LOW_WATERMARK_RATIO",
                "MOONCAKE_OFFLOAD_DISK_EVICTION_HIGH_WATERMARK_RATIO",
                "MOONCAKE_OFFLOAD_DISK_EVICTION_LOW_WATERMARK_RATIO",
                "MOONCAKE_OFFLOAD_ENABLE_DISK_WATERMARK_EVICTION",
                "MOONCAKE_OFFLOAD_ENABLE_EVICTION",
                "MOONCAKE_OFFSET_HIGH_RATIO",
                "MOONCAKE_OFFSET_LOW_RATIO",
            ],
            NotNeeded("a log never takes more than its limit"),
        ),
        (
            &[
                "MOONCAKE_OFFLOAD_BUCKET_DISK_SCAN_CACHE_MS",
                "MOONCAKE_OFFLOAD_BUCKET_KEYS_LIMIT",
                "MOONCAKE_OFFLOAD_BUCKET_MAX_PHYSICAL_BYTES",
                "MOONCAKE_OFFLOAD_TOTAL_KEYS_LIMIT",
                "MOONCAKE_OFFSET_MAX_CAPACITY_NODES",
            ],
            NotNeeded("objects are written in batches of any number, and no index bounds them"),
        ),
        (
            &[
                "MOONCAKE_OFFLOAD_CLIENT_BUFFER_GC_INTERVAL_SECONDS",
                "MOONCAKE_OFFLOAD_CLIENT_BUFFER_GC_TTL_MS",
                "MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES",
            ],
            NotNeeded("bytes pass through at most 128 MiB per disk, given back when they are sent"),
        ),
        (
            &[
                "MC_FILEREAD_WORKERS",
                "MOONCAKE_OFFLOAD_HEARTBEAT_INTERVAL_SECONDS",
                "MOONCAKE_OFFLOAD_SCANMETA_ITERATOR_KEYS_LIMIT",
                "MOONCAKE_OFFLOAD_USE_URING",
                "MOONCAKE_SCANMETA_ITERATOR_KEYS_LIMIT",
                "MOONCAKE_USE_URING",
            ],
            NotNeeded("a disk has a shard of its own, on io_uring where there is one"),
        ),
        (
            &[
                "MOONCAKE_OFFSET_PERSIST_INTERVAL_SECONDS",
                "MOONCAKE_OFFSET_PERSIST_MODE",
                "MOONCAKE_OFFSET_RECORD_CRC",
            ],
            NotNeeded("everything on a disk has a checksum and is found again"),
        ),
        (
            &["MOONCAKE_OFFLOAD_STORAGE_BACKEND_DESCRIPTOR"],
            Honoured(
                "the log stands for bucket, offset_allocator and file_per_key; others are refused",
            ),
        ),
        (&["MOONCAKE_OFFLOAD_FSDIR"], NotBuilt("there is one way to store objects, the log")),
    ],
};

pub(super) const FILES: Group = Group {
    title: "Shared files and snapshots",
    entries: &[
        (
            &[
                "MOONCAKE_DFS_ALIGNMENT",
                "MOONCAKE_DFS_DEFERRED_FREE_SECONDS",
                "MOONCAKE_DFS_ENABLED",
                "MOONCAKE_DFS_EVICTION_CHECK_INTERVAL",
                "MOONCAKE_DFS_EVICTION_ENABLED",
                "MOONCAKE_DFS_EVICTION_HIGH_WATERMARK",
                "MOONCAKE_DFS_EVICTION_LOW_WATERMARK",
                "MOONCAKE_DFS_FS_ADAPTER",
                "MOONCAKE_DFS_ROOT_DIR",
                "MOONCAKE_DFS_SHARD_CAPACITY",
                "MOONCAKE_DFS_SHARD_COUNT",
                "MOONCAKE_DFS_SINGLE_TENANT",
                "MOONCAKE_DISTRIBUTED_FS_TYPE",
                "MOONCAKE_DISTRIBUTED_HEALTH_CHECK",
                "MOONCAKE_DISTRIBUTED_ROOT_DIR",
                "MOONCAKE_ENABLE_DFS",
            ],
            NotBuilt("replicas in a distributed file system"),
        ),
        (
            &[
                "MOONCAKE_AWS_ACCESS_KEY_ID",
                "MOONCAKE_AWS_BUCKET_NAME",
                "MOONCAKE_AWS_CONNECT_TIMEOUT_MS",
                "MOONCAKE_AWS_REGION",
                "MOONCAKE_AWS_REQUEST_CHECKSUM_CALCULATION",
                "MOONCAKE_AWS_REQUEST_TIMEOUT_MS",
                "MOONCAKE_AWS_RESPONSE_CHECKSUM_VALIDATION",
                "MOONCAKE_AWS_S3_ENDPOINT",
                "MOONCAKE_AWS_SECRET_ACCESS_KEY",
                "MOONCAKE_AWS_USE_HTTPS",
                "MOONCAKE_AWS_USE_VIRTUAL_ADDRESSING",
                "MOONCAKE_MASTER_SERVICE_SNAPSHOT_TEST_SKIP_CLEANUP",
                "MOONCAKE_SNAPSHOT_LOCAL_PATH",
            ],
            NotBuilt("snapshots of the master"),
        ),
    ],
};

pub(super) const NVME: Group = Group {
    title: "NVMe",
    entries: &[
        (
            &[
                "MC_NOF_DEBUG",
                "MC_NOF_DEBUG_INTERVAL_MS",
                "MC_NOF_INFLIGHT_BYTES_LIMIT",
                "MC_NOF_SUBMIT_CHUNK_BYTES",
                "MC_NOF_TRTYPE",
                "MC_NOF_WORKERS",
                "MC_NVME_ADMIN_QUEUE_SIZE",
                "MC_NVME_DATA_DIGEST",
                "MC_NVME_FABRICS_CONNECT_TIMEOUT_US",
                "MC_NVME_HEADER_DIGEST",
                "MC_NVME_IO_QUEUE_REQUESTS",
                "MC_NVME_IO_QUEUE_SIZE",
                "MC_NVME_NUM_IO_QUEUES",
                "MC_NVME_TRANSPORT_ACK_TIMEOUT",
            ],
            NotBuilt("segments over NVMe-oF"),
        ),
        (
            &[
                "MOONCAKE_NVME_KV_BATCH_SUBMIT_CONCURRENCY",
                "MOONCAKE_NVME_KV_DEVICE_PATH",
                "MOONCAKE_NVME_KV_DRIVER",
                "MOONCAKE_NVME_KV_IO_CONCURRENCY",
                "MOONCAKE_NVME_KV_MAX_IO_CONCURRENCY",
                "MOONCAKE_NVME_KV_NSID",
                "MOONCAKE_NVME_KV_PREPARE_CONCURRENCY",
                "MOONCAKE_NVME_KV_PROTOCOL_MAX_VALUE_SIZE",
                "MOONCAKE_NVME_KV_QUEUE_DEPTH",
                "MOONCAKE_NVME_KV_READ_PLAN_BATCH_SIZE",
                "MOONCAKE_NVME_KV_ROOT_SUBMIT_CONCURRENCY",
                "MOONCAKE_NVME_KV_RUNTIME_TRANSFER_LIMIT",
                "MOONCAKE_NVME_KV_TRANSFER_ALIGNMENT_BYTES",
                "MOONCAKE_NVME_KV_TRANSPORT",
                "MOONCAKE_NVME_KV_VALUE_BLOCK_UNIT_BYTES",
            ],
            NotBuilt("objects on NVMe key-value devices"),
        ),
    ],
};
