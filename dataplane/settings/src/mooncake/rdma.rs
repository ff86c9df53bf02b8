//! Variables of RDMA: connections, tuning, choice of devices.

use super::Group;
use super::MooncakeEffect::{Honoured, NotBuilt, NotNeeded};

pub(super) const CONNECTIONS: Group = Group {
    title: "RDMA connections",
    entries: &[
        (&["MC_GID_INDEX", "NCCL_IB_GID_INDEX"], Honoured("GID index of all ports")),
        (&["MC_IB_TC"], Honoured("traffic class of packets (DSCP and ECN)")),
        (&["MC_IB_SL"], Honoured("service level of packets (priority)")),
        (&["MC_PKEY_INDEX"], Honoured("entry of the partition key table")),
        (&["MC_IB_PORT"], Honoured("port of devices whose name has none")),
        (&["MC_MTU"], Honoured("largest packet payload")),
        (&["MC_NUM_QP_PER_EP"], Honoured("queue pairs of a shard between two NICs")),
        (&["MC_RETRY_CNT"], Honoured("times that a slice is tried")),
        (&["MC_AUTO_GID_MAX_RETRIES"], NotNeeded("each GID is tried, the best first")),
        (
            &["MC_MLX5_QP_UDP_SPORTS", "MC_MLX5_QP_LAG_PORT_BALANCE"],
            NotBuilt("settings of the mlx5 driver's own interface"),
        ),
        (&["MC_RDMA_BIND_ADDRESS"], NotNeeded("rails connect by GID, never by the host's name")),
    ],
};

pub(super) const TUNING: Group = Group {
    title: "RDMA tuning",
    entries: &[
        (&["MC_IB_PCI_RELAXED_ORDERING"], Honoured("devices may write in any order")),
        (&["MC_SLICE_SIZE"], Honoured("length of slices over RDMA")),
        (&["MC_FRAGMENT_RATIO"], NotNeeded("a short rest joins the last slice")),
        (
            &["MC_WORKERS_PER_CTX"],
            NotNeeded("shards drive NICs; PERIGEE_RAIL_CPUS chooses their cores"),
        ),
        (
            &[
                "MC_NUM_CQ_PER_CTX",
                "MC_NUM_COMP_CHANNELS_PER_CTX",
                "MC_MAX_CQE_PER_CTX",
                "MC_MAX_EP_PER_CTX",
                "MC_MAX_WR",
                "MC_MAX_SGE",
                "MC_MAX_INLINE",
            ],
            NotNeeded("queues are sized from what they carry and the device allows"),
        ),
        (&["MC_SLICE_TIMEOUT"], NotNeeded("each slice has a deadline of its own")),
        (
            &["MC_RDMA_RAIL_PAUSE_SECONDS", "MC_CONN_PAUSE_TTL_MS"],
            NotNeeded("a rail that failed is tried again after a pause that grows"),
        ),
        (&["MC_ENDPOINT_STORE_TYPE"], NotNeeded("queue pairs live as long as their peer's lease")),
        (
            &["MC_ENABLE_PARALLEL_REG_MR", "MC_MAX_CONCURRENT_REG_MR", "MC_MAX_MR_SIZE"],
            NotNeeded("memory is registered in parallel and in pieces that the device takes"),
        ),
        (
            &["MC_DISABLE_GPU_DIRECT_RDMA", "WITH_NVIDIA_PEERMEM"],
            NotBuilt("how GPU memory is registered cannot be chosen"),
        ),
    ],
};

pub(super) const DEVICES: Group = Group {
    title: "Choice of devices",
    entries: &[
        (&["MC_TE_FILTERS", "MC_MS_FILTERS"], Honoured("devices to use")),
        (&["MC_TE_FILTERS_EXCLUDE"], Honoured("devices never to use")),
        (&["MC_MS_AUTO_DISC"], Honoured("finds all devices, or wants them named")),
        (&["MC_CUSTOM_TOPO_JSON"], Honoured("matrix of NICs by memory location")),
        (&["CUDA_VISIBLE_DEVICES"], Honoured("GPUs of this process")),
        (&["MC_PATH_ROUNDROBIN"], NotNeeded("a slice goes to the rail that is done with it first")),
        (&["MC_ENABLE_DEST_DEVICE_AFFINITY"], Honoured("joins NICs of the same name first")),
        (&["MC_NIC_PEER_AFFINITY"], Honoured("which NICs of a peer each NIC is joined to first")),
        (
            &["MC_ENABLE_HCA_PEER_AFFINITY"],
            NotBuilt("partners follow from place, name or MC_NIC_PEER_AFFINITY"),
        ),
    ],
};
