//! Variables of transfer engines: ports, timeouts, metadata, logs, TCP, and TENT.

use super::Group;
use super::MooncakeEffect::{Honoured, NotBuilt, NotNeeded};

pub(super) const GENERAL: Group = Group {
    title: "Engines",
    entries: &[
        (&["MC_TRANSFER_TIMEOUT"], Honoured("longest transfer")),
        (&["MC_FORCE_TCP"], Honoured("TCP, whatever the protocol says")),
        (&["MC_FORCE_HCA"], Honoured("RDMA, whatever the protocol says, or no start")),
        (&["MC_HANDSHAKE_PORT"], Honoured("handshake port of a peer whose name has none")),
        (&["MC_HANDSHAKE_LISTEN_BACKLOG"], Honoured("connections that the kernel queues")),
        (&["MC_HANDSHAKE_CONNECT_TIMEOUT"], Honoured("longest connect to a peer")),
        (&["MC_HANDSHAKE_MAX_LENGTH"], Honoured("longest handshake frame")),
        (
            &["MC_MIN_RPC_PORT", "MC_MAX_RPC_PORT", "MC_MIN_PRC_PORT", "MC_MAX_PRC_PORT"],
            Honoured("range of handshake ports"),
        ),
        (&["MC_USE_IPV6"], Honoured("listens on IPv6")),
        (
            &["MC_LEGACY_RPC_PORT_BINDING"],
            NotNeeded("a handshake port is bound before it is announced"),
        ),
        (
            &["MC_TE_METRIC", "MC_TE_METRIC_INTERVAL_SECONDS"],
            Honoured("line of throughput and latency in the log"),
        ),
        (
            &["MC_USE_TENT", "MC_USE_TEV1", "MC_TENT_CONF", "MC_TENT_RPC_THREADS"],
            NotBuilt("there is one engine, which has no TENT configuration"),
        ),
        (
            &[
                "TENT_METRICS_ENABLED",
                "TENT_METRICS_HTTP_HOST",
                "TENT_METRICS_HTTP_PORT",
                "TENT_METRICS_HTTP_SERVER_THREADS",
                "TENT_METRICS_REPORT_INTERVAL",
            ],
            NotBuilt("engines have no HTTP port; `perigee agent` serves their counters"),
        ),
    ],
};

pub(super) const LOGS: Group = Group {
    title: "Logs",
    entries: &[
        (&["MC_LOG_LEVEL"], Honoured("lowest level that is logged")),
        (&["MC_LOG_DIR"], Honoured("folder of the log file")),
        (&["MC_YLT_LOG_LEVEL"], NotNeeded("the RPC library it is for is not used")),
        (
            &["MC_LOG_RDMA_SLICE_AFFINITY", "MC_TRACK_RDMA_POSTED_SLICES"],
            NotNeeded("`perigee top` and the metrics show bytes and slices of each NIC"),
        ),
    ],
};

pub(super) const METADATA: Group = Group {
    title: "Names and metadata",
    entries: &[
        (&["MC_DISABLE_METACACHE"], Honoured("asks for a peer's document each time")),
        (&["MC_TE_METADATA_REFRESH_INTERVAL_SECONDS"], Honoured("age at which it asks again")),
        (&["MC_METADATA_CLUSTER_ID"], Honoured("further part of the names of records")),
        (&["MC_REDIS_USERNAME", "MC_REDIS_PASSWORD"], Honoured("user of Redis")),
        (&["MC_REDIS_DB_INDEX"], Honoured("database of Redis")),
    ],
};

pub(super) const TCP: Group = Group {
    title: "TCP",
    entries: &[
        (&["MC_TCP_BIND_ADDRESS"], Honoured("address to listen on and to announce")),
        (
            &["MC_TCP_ENABLE_CONNECTION_POOL", "MC_TCP_MAX_CONNECTIONS_PER_PEER"],
            NotNeeded("each shard keeps one connection to a peer"),
        ),
        (&["MC_TCP_LANES_PER_PEER"], NotNeeded("the shards are the lanes; PERIGEE_CLIENT_SHARDS")),
        (
            &[
                "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER",
                "MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER",
                "MC_TCP_ADMISSION_TIMEOUT_MS",
                "MC_TCP_STATUS_TIMEOUT_SEC",
            ],
            NotNeeded("queues are bounded, and each transfer has the deadline of its batch"),
        ),
        (&["MC_TCP_PROTO"], NotNeeded("both ends agree on the protocol when they connect")),
        (&["MC_TCP_SLICE_SIZE"], NotNeeded("a piece goes to the kernel whole")),
    ],
};
