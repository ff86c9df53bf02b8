//! Keys of TENT's configuration, as its engine and transports look for them.
//! Invariant: the line about keys without effect has these names.

use super::vocabulary::{Vocabulary, WordKind};
use crate::mooncake::Entry;
use crate::mooncake::MooncakeEffect::{Honoured, NotBuilt, NotNeeded};

pub(super) const VOCABULARIES: &[Vocabulary] =
    &[Vocabulary { kind: WordKind::Key, taken_by: "tent.TransferEngine(file)", entries: KEYS }];

const QUEUES: &str = "queues are sized from what they carry and the device allows";
const PAUSES: &str = "a rail that failed is tried again after a pause that grows";
const METRICS: &str = "TENT's own port of metrics; perigee agent has the NICs'";
const ADMISSION: &str = "no bounds by bytes, deadline or priority ahead of transports";
const BY_LOAD: &str = "a slice goes to the rail that is done with it first, as measured";
const NO_PRIORITY: &str = "transfers have no priority and no deadline of their own";
const FIXED: &str = "an attribute of queue pairs that is fixed here";

const KEYS: &[Entry] = &[
    (&["local_segment_name", "rpc_server_hostname"], Honoured("name of the engine")),
    (&["rpc_server_port"], Honoured("its port")),
    (&["metadata_type", "metadata_servers"], Honoured("p2p, or etcd, redis or http and where")),
    (
        &["transports.tcp.enable", "transports.rdma.enable", "transports.shm.enable"],
        Honoured("ways to peers"),
    ),
    (&["log_level", "verbose"], NotNeeded("MC_LOG_LEVEL sets it")),
    (&["rpc_server_threads"], NotNeeded("PERIGEE_ENGINE_SHARDS sets how many shards serve peers")),
    (&["merge_requests"], NotNeeded("requests of a batch are in flight together, joined or not")),
    (
        &["max_failover_attempts", "enable_auto_failover_on_poll", "enable_progress_worker"],
        NotNeeded("a transfer takes another way by itself until its deadline"),
    ),
    (
        &["use_legacy_transport_selection"],
        NotNeeded("the transport is chosen for each transfer, in one way"),
    ),
    (&["topology.rdma_whitelist"], NotNeeded("MC_TE_FILTERS sets it")),
    (&["topology.rdma_blacklist"], NotNeeded("MC_TE_FILTERS_EXCLUDE sets it")),
    (&["topology.custom_json_path"], NotNeeded("MC_CUSTOM_TOPO_JSON sets it")),
    (&["topology.priority_matrix"], NotNeeded("MC_CUSTOM_TOPO_JSON names a file that has it")),
    (
        &[
            "metrics.enabled",
            "metrics.http_host",
            "metrics.http_port",
            "metrics.http_server_threads",
            "metrics.report_interval_seconds",
        ],
        NotBuilt(METRICS),
    ),
    (&["policy"], NotBuilt("choice of transports and devices by kind of segment")),
    (&["qos"], NotBuilt("classes and bounds of tenants")),
    (
        &[
            "enable_runtime_queue",
            "runtime_queue.deadline_aware",
            "runtime_queue.max_dispatch_bytes",
            "runtime_queue.max_dispatch_owners",
            "runtime_queue.max_outstanding_bytes",
            "runtime_queue.max_outstanding_owners",
            "runtime_queue.mlu_local_threshold",
            "runtime_queue.progress_fallback_interval_us",
            "runtime_queue.promotion_slack_ns",
            "runtime_queue.staging_byte_reserve",
            "runtime_queue.staging_owner_reserve",
        ],
        NotBuilt(ADMISSION),
    ),
    (&["transports.rdma.device.port"], NotNeeded("MC_IB_PORT sets it")),
    (&["transports.rdma.device.gid_index"], NotNeeded("MC_GID_INDEX sets it")),
    (
        &[
            "transports.rdma.device.num_cq_list",
            "transports.rdma.device.num_comp_channels",
            "transports.rdma.device.max_cqe",
            "transports.rdma.endpoint.endpoint_store_cap",
            "transports.rdma.endpoint.max_sge",
            "transports.rdma.endpoint.max_qp_wr",
            "transports.rdma.endpoint.max_inline_bytes",
            "transports.rdma.endpoint.max_rd_atomic",
            "transports.rdma.endpoint.max_dest_rd_atomic",
        ],
        NotNeeded(QUEUES),
    ),
    (&["transports.rdma.endpoint.qp_mul_factor"], NotNeeded("MC_NUM_QP_PER_EP sets it")),
    (&["transports.rdma.endpoint.path_mtu"], NotNeeded("MC_MTU sets it")),
    (&["transports.rdma.endpoint.pkey_index"], NotNeeded("MC_PKEY_INDEX sets it")),
    (&["transports.rdma.endpoint.traffic_class"], NotNeeded("MC_IB_TC sets it")),
    (&["transports.rdma.endpoint.service_level"], NotNeeded("MC_IB_SL sets it")),
    (&["transports.rdma.endpoint.qp_pools"], NotBuilt("queue pairs for each class of traffic")),
    (
        &["transports.rdma.endpoint.rq_psn", "transports.rdma.endpoint.sq_psn"],
        NotNeeded("each connection begins with a number of its own"),
    ),
    (
        &[
            "transports.rdma.endpoint.flow_label",
            "transports.rdma.endpoint.hop_limit",
            "transports.rdma.endpoint.src_path_bits",
            "transports.rdma.endpoint.static_rate",
            "transports.rdma.endpoint.min_rnr_timer",
            "transports.rdma.endpoint.send_timeout",
            "transports.rdma.endpoint.send_retry_count",
            "transports.rdma.endpoint.send_rnr_count",
        ],
        NotBuilt(FIXED),
    ),
    (
        &["transports.rdma.workers.num_workers"],
        NotNeeded("shards drive NICs; PERIGEE_RAIL_CPUS chooses their cores"),
    ),
    (&["transports.rdma.workers.block_size"], NotNeeded("MC_SLICE_SIZE sets it")),
    (&["transports.rdma.workers.max_retry_count"], NotNeeded("MC_RETRY_CNT sets it")),
    (&["transports.rdma.workers.grace_period_ns"], NotNeeded("each slice has a deadline")),
    (
        &["transports.rdma.workers.rail_topo_path"],
        NotNeeded("MC_NIC_PEER_AFFINITY says which NICs of a peer each NIC is joined to"),
    ),
    (
        &["transports.rdma.bind_address"],
        NotNeeded("rails connect by GID, never by the host's name"),
    ),
    (&["transports.rdma.pci_relaxed_ordering"], NotNeeded("MC_IB_PCI_RELAXED_ORDERING sets it")),
    (
        &["transports.rdma.disable_gpu_direct_rdma"],
        NotBuilt("how GPU memory is registered cannot be chosen"),
    ),
    (
        &["transports.rdma.log_slice_affinity"],
        NotNeeded("the agent and perigee trace have each NIC's part"),
    ),
    (
        &[
            "transports.rdma.rail_error_threshold",
            "transports.rdma.rail_error_window_secs",
            "transports.rdma.rail_cooldown_secs",
            "transports.rdma.gdr_error_threshold",
            "transports.rdma.gdr_error_window_secs",
            "transports.rdma.gdr_cooldown_secs",
        ],
        NotNeeded(PAUSES),
    ),
    (
        &[
            "transports.rdma.enable_smart_scheduling",
            "transports.rdma.numa_penalties",
            "transports.rdma.bandwidth_learning_rate",
            "transports.rdma.ewma_min_bandwidth_multiplier",
            "transports.rdma.ewma_max_bandwidth_multiplier",
            "transports.rdma.default_bandwidth_gbps",
            "transports.rdma.min_bandwidth_gbps",
            "transports.rdma.max_bandwidth_gbps",
            "transports.rdma.score_jitter_range",
            "transports.rdma.score_epsilon",
            "transports.rdma.local_rotation_interval_us",
            "transports.rdma.slot_rotation_interval_ms",
            "transports.rdma.num_lanes",
            "transports.rdma.shared_quota_shm_path",
        ],
        NotNeeded(BY_LOAD),
    ),
    (
        &[
            "transports.rdma.enable_priority_filtering",
            "transports.rdma.priority_promotion_timeout_us",
            "transports.rdma.priority_promotion_per_entry",
            "transports.rdma.deadline_bw_arbitration",
        ],
        NotBuilt(NO_PRIORITY),
    ),
    (&["transports.rdma.max_timeout_ns"], NotNeeded("MC_TRANSFER_TIMEOUT ends transfers")),
    (
        &[
            "transports.tcp.max_retry_count",
            "transports.tcp.retry_base_delay_ms",
            "transports.tcp.retry_max_delay_ms",
            "transports.tcp.max_concurrent_tasks",
        ],
        NotNeeded("transfers are tried again until their deadline, as many as connections take"),
    ),
    (&["transports.hp_tcp"], NotNeeded("tcp has several connections to a peer")),
    (&["transports.shm.cxl_mount_path"], NotBuilt("CXL memory")),
    (
        &[
            "transports.ascend_direct",
            "transports.gds",
            "transports.io_uring",
            "transports.mnnvl",
            "transports.mpcomm",
            "transports.nvlink",
            "transports.sunrise_link",
            "transports.tpu",
            "transports.ub",
        ],
        NotBuilt("this transport, with its options; tcp and rdma reach all hosts"),
    ),
];
