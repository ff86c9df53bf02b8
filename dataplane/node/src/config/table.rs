//! Every setting of the node as data. Invariant: the first two groups hold Mooncake's flags with
//! Mooncake's types and defaults; what is ours has a group of its own.

use crate::limits::{
    CPU_NUMBER_MAX, DATA_SHARDS_MAX, DRAIN_TIMEOUT_MS_MAX, POLL_US_MAX, PORT_MAX,
    SEGMENT_BYTES_MAX, THREADS_MAX, WAIT_MS_MAX,
};
use perigee_flags::{Flag, LOG_FLAGS, Program, ValueKind};

const DUMMY_CLIENTS: &str = "dummy clients talk to master and nodes themselves";
const SSD_SERVER: &str = "copies on a disk are served over the data port";
const ARENA: &str = "use --huge_pages for donated memory; there is no arena";

/// The node as its settings see it.
pub const NODE: Program = Program {
    name: "perigee node",
    version: env!("CARGO_PKG_VERSION"),
    summary: "donates memory of this host to a KV-cache cluster and serves it to clients",
    variable_prefix: "PERIGEE_NODE_",
    words: &[],
    tables: &[
        ("Cluster", CLUSTER),
        ("Memory", MEMORY),
        ("HTTP", HTTP),
        ("Stop", STOP),
        ("Data path", DATA_PATH),
        ("Logs", LOG_FLAGS),
    ],
};

const CLUSTER: &[Flag] = &[
    Flag::new("config_path", ValueKind::Text, "", "JSON or YAML file with settings of these names")
        .own(),
    Flag::new(
        "host",
        ValueKind::Text,
        "0.0.0.0",
        "Address or name by which other hosts reach this one; 0.0.0.0 listens on all addresses and \
         announces the one towards the master; HOST:PORT is taken whole",
    ),
    Flag::new(
        "port",
        ValueKind::Int32,
        "50052",
        "Port of the segment's name and of its data; data goes over one that the system chooses \
         if another program has it; 0 chooses a free one; without it the next port is taken if \
         another node of this host has this one",
    )
    .within(0, PORT_MAX),
    Flag::new(
        "master_server_address",
        ValueKind::Text,
        "127.0.0.1:50051",
        "HOST:PORT of the master",
    )
    .aliases(&["master_server_addr"]),
    Flag::new(
        "metadata_server",
        ValueKind::Text,
        "http://127.0.0.1:8080/metadata",
        "P2PHANDSHAKE, or a metadata service to register with: http://HOST:PORT/metadata, \
         etcd://HOST:PORT or redis://HOST:PORT; the default is used only when a service answers \
         there",
    ),
    Flag::new(
        "max_wait_time",
        ValueKind::DurationMs,
        "60s",
        "Time to wait at the start for the master and a given metadata service; 0 tries once",
    )
    .own()
    .within(0, WAIT_MS_MAX),
    Flag::new(
        "protocol",
        ValueKind::Text,
        "tcp",
        "tcp or rdma; with rdma, clients that ask for it reach the memory by RDMA, all others by TCP",
    ),
    Flag::new(
        "device_names",
        ValueKind::Text,
        "",
        "RDMA devices, separated by commas; empty takes all with an active port",
    )
    .aliases(&["device_name", "rdma_devices"]),
    Flag::new(
        "tenant_id",
        ValueKind::Text,
        "default",
        "Tenant of the programs that find their master through this node",
    ),
    Flag::new(
        "ipc_socket_path",
        ValueKind::Text,
        "",
        "File of a Unix socket at which programs of other users of this host find this node \
         (setup_dummy with unix:PATH); empty has none",
    )
    .own(),
    Flag::new(
        "ipc_socket_mode",
        ValueKind::Text,
        "0660",
        "Mode bits of that file, octal: who may write to it may connect",
    )
    .own(),
    Flag::new("threads", ValueKind::Int32, "1", "Threads that serve dummy clients")
        .within(0, THREADS_MAX)
        .ignored(DUMMY_CLIENTS),
];

const MEMORY: &[Flag] = &[
    Flag::new("global_segment_size", ValueKind::SizeBytes, "4 GB", "Memory to donate")
        .within(0, SEGMENT_BYTES_MAX),
    Flag::new("local_buffer_size", ValueKind::SizeBytes, "0", "Buffer for dummy clients")
        .within(0, SEGMENT_BYTES_MAX)
        .ignored(DUMMY_CLIENTS),
    Flag::new(
        "huge_pages",
        ValueKind::Bool,
        "false",
        "Donate memory in huge pages of the system's default size; also switched on by \
         MC_STORE_USE_HUGEPAGE",
    )
    .own(),
    Flag::new(
        "numa_node",
        ValueKind::Int32,
        "-1",
        "NUMA node of the donated memory; -1 lets the system choose",
    )
    .own()
    .within(-1, CPU_NUMBER_MAX)
    .variables(&["MC_STORE_NUMA_SOCKET_ID"]),
    Flag::new("use_mmap_arena_allocator", ValueKind::Bool, "false", "Arena for mapped buffers")
        .ignored(ARENA),
    Flag::new(
        "mmap_arena_pool_size",
        ValueKind::Uint64,
        "8589934592",
        "Bytes of the arena for mapped buffers",
    )
    .ignored(ARENA),
    Flag::new(
        "enable_offload",
        ValueKind::Bool,
        "false",
        "Write objects to this host's disks before they are evicted; the master must have \
         enable_offload, too",
    ),
    Flag::new(
        "ssd_offload_path",
        ValueKind::Text,
        "",
        "Folder on a disk, or several and commas; empty takes \
         MOONCAKE_OFFLOAD_FILE_STORAGE_PATH, else /data/file_storage",
    )
    .own(),
    Flag::new(
        "ssd_key_file",
        ValueKind::Text,
        "",
        "File of the key that disks are encrypted with, 32 bytes or 64 hexadecimal digits; empty \
         takes PERIGEE_SSD_KEY_FILE, else disks are not encrypted",
    )
    .own(),
    Flag::new(
        "start_offload_rpc_server",
        ValueKind::Bool,
        "true",
        "Serve reads of objects on the SSD",
    )
    .ignored(SSD_SERVER),
];

const HTTP: &[Flag] = &[
    Flag::new(
        "enable_http_server",
        ValueKind::Bool,
        "false",
        "Serve /health, /metrics, /metrics/summary, /livez and /readyz; without this flag they are \
         served if http_port is free; false serves nothing",
    ),
    Flag::new(
        "http_port",
        ValueKind::Int32,
        "9300",
        "Port of the HTTP server; 0 lets the system choose",
    )
    .within(0, PORT_MAX),
    Flag::new("http_host", ValueKind::Text, "0.0.0.0", "IP address the HTTP server listens on")
        .own(),
];

const STOP: &[Flag] = &[
    Flag::new(
        "drain_on_stop",
        ValueKind::Uint64,
        "20",
        "Longest time in seconds for which a stop moves the objects here to other nodes, and what \
         is left to the disks of this one; 0 drops them. If not given: 20 s after SIGTERM, 0 \
         after SIGINT; skipped if neither takes objects",
    )
    .own()
    .within(0, DRAIN_TIMEOUT_MS_MAX / 1000),
    Flag::new(
        "master_metrics_port",
        ValueKind::Int32,
        "9003",
        "HTTP port of the master, to which the drain request goes",
    )
    .own()
    .within(1, PORT_MAX),
];

const DATA_PATH: &[Flag] = &[
    Flag::new(
        "shared_memory",
        ValueKind::Bool,
        "true",
        "Let clients of this host map the donated memory",
    )
    .own()
    .variables(&["PERIGEE_SHARED_MEMORY"]),
    Flag::new(
        "data_shards",
        ValueKind::Int32,
        "0",
        "Executors that serve donated memory over TCP; 0 means one for each 8 cores, 1 to 4",
    )
    .own()
    .within(0, DATA_SHARDS_MAX)
    .variables(&["PERIGEE_DATA_SHARDS"]),
    Flag::new(
        "data_cpus",
        ValueKind::Text,
        "",
        "CPU numbers to bind the data shards to, separated by commas; empty binds none",
    )
    .own()
    .variables(&["PERIGEE_DATA_CPUS"]),
    Flag::new(
        "bind_address",
        ValueKind::Text,
        "",
        "IP address of the data port; empty takes the address of the node's name",
    )
    .own()
    .variables(&["MC_TCP_BIND_ADDRESS"]),
    Flag::new(
        "tcp_congestion",
        ValueKind::Text,
        "auto",
        "Congestion control of data connections: a name the kernel knows, host for the system's \
         setting, or auto",
    )
    .own()
    .variables(&["PERIGEE_TCP_CONGESTION"]),
    Flag::new(
        "poll_us",
        ValueKind::Int32,
        "-1",
        "Microseconds a data shard polls after its last work before it sleeps; -1 takes the \
         built-in value",
    )
    .own()
    .within(-1, POLL_US_MAX)
    .variables(&["PERIGEE_POLL_US"]),
];
