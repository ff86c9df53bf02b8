//! Settings of ports, threads, HTTP and the metadata service. Invariant: each listener has one
//! host and one port setting.

use super::{PERIOD_SECONDS_MAX, PORT_MAX, RPC_SHARDS_MAX};
use perigee_flags::{ALLOW_UNBUILT, Flag, ValueKind};

/// Most threads that the older settings may name.
const THREADS_MAX: i128 = 4096;

const LABELS: &str = "leader labels on Kubernetes pods";

pub(super) const FLAGS: &[Flag] = &[
    Flag::new("config_path", ValueKind::Text, "", "JSON or YAML file with settings of these names"),
    ALLOW_UNBUILT,
    Flag::new("port", ValueKind::Int32, "50051", "RPC port when rpc_port is 0").within(0, PORT_MAX),
    Flag::new("rpc_port", ValueKind::Int32, "0", "RPC port; 0 leaves it to port")
        .within(0, PORT_MAX),
    Flag::new("rpc_address", ValueKind::Text, "0.0.0.0", "Address of the RPC service"),
    Flag::new(
        "rpc_interface",
        ValueKind::Text,
        "",
        "Network interface whose IPv4 address replaces rpc_address",
    ),
    Flag::new(
        "rpc_shards",
        ValueKind::Int32,
        "0",
        "Executors that serve RPC calls; 0 means a quarter of the cores, at least 1",
    )
    .own()
    .within(0, RPC_SHARDS_MAX),
    Flag::new(
        "rpc_thread_num",
        ValueKind::Int32,
        "0",
        "Executors when rpc_shards is 0, at most 16 and the number of cores",
    )
    .within(0, THREADS_MAX),
    Flag::new(
        "max_threads",
        ValueKind::Int32,
        "16",
        "Upper bound of the executors chosen by the program",
    )
    .within(1, THREADS_MAX)
    .deprecated("use rpc_shards"),
    Flag::new(
        "rpc_conn_timeout_seconds",
        ValueKind::Int32,
        "0",
        "Idle seconds after which a connection is closed; 0 never",
    )
    .within(0, PERIOD_SECONDS_MAX),
    Flag::new(
        "verify_segments",
        ValueKind::Bool,
        "true",
        "Give a segment objects only after its owner has answered at its endpoint",
    )
    .own(),
    Flag::new("rpc_enable_tcp_no_delay", ValueKind::Bool, "true", "Send small answers at once")
        .ignored("small answers are always sent at once"),
    Flag::new("rpc_protocol", ValueKind::Text, "tcp", "Transport of RPC calls")
        .own()
        .one_of(&["tcp", "rdma"])
        .variables(&["MC_RPC_PROTOCOL"])
        .not_built("RPC over RDMA"),
    Flag::new(
        "enable_metric_reporting",
        ValueKind::Bool,
        "true",
        "Log a summary line every 10 seconds",
    ),
    Flag::new(
        "metrics_port",
        ValueKind::Int32,
        "9003",
        "HTTP port: metrics, health, keys, segments",
    )
    .within(0, PORT_MAX),
    Flag::new("metrics_host", ValueKind::Text, "0.0.0.0", "HTTP address; :: serves IPv6 and IPv4"),
    Flag::new(
        "enable_http_metadata_server",
        ValueKind::Bool,
        "false",
        "Run the metadata service inside the master; also on if the command line gives its host or port",
    ),
    Flag::new(
        "http_metadata_server_port",
        ValueKind::Int32,
        "8080",
        "Port of the metadata service",
    )
    .within(0, PORT_MAX),
    Flag::new(
        "http_metadata_server_host",
        ValueKind::Text,
        "0.0.0.0",
        "Address of the metadata service",
    ),
    Flag::new(
        "enable_metadata_cleanup_on_timeout",
        ValueKind::Bool,
        "false",
        "Delete the metadata records of a client that expired",
    ),
    Flag::new(
        "metadata_server",
        ValueKind::Text,
        "",
        "URL of a separate metadata service to clean, http://host:port/metadata",
    )
    .own()
    .variables(&["MOONCAKE_TE_META_DATA_SERVER"]),
    Flag::new(
        "metadata_cluster_id",
        ValueKind::Text,
        "",
        "Extra path part of metadata record names",
    )
    .own()
    .variables(&["MC_METADATA_CLUSTER_ID"]),
    Flag::new(
        "cluster_id",
        ValueKind::Text,
        "mooncake_cluster",
        "Name of this cluster: its folder in the shared directory",
    ),
    Flag::new("pod_name", ValueKind::Text, "", "Pod that is labelled as leader").not_built(LABELS),
    Flag::new("pod_namespace", ValueKind::Text, "", "Namespace of that pod").not_built(LABELS),
    Flag::new("mmap_arena_pool_size", ValueKind::SizeBytes, "8589934592", "Arena size of a client")
        .ignored("the master holds no object data"),
    Flag::new("use_mmap_arena_allocator", ValueKind::Bool, "false", "Arena of a client")
        .ignored("the master holds no object data"),
];
