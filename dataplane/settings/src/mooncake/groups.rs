//! Variables of process groups, expert parallelism and peer-to-peer copies between ranks.

use super::Group;
use super::MooncakeEffect::NotBuilt;

pub(super) const OTHERS: Group = Group {
    title: "Process groups and expert parallelism",
    entries: &[
        (
            &[
                "EP_OVERRIDE_RDMA_SL",
                "MOONCAKE_EP_ACTIVE_QPS_PER_RANK",
                "MOONCAKE_EP_DEVICE_FILTER",
                "MOONCAKE_EP_MACA_ALLOC",
                "MOONCAKE_EP_MACA_ALLOW_NODE_P2P",
                "MOONCAKE_EP_MACA_DISABLE_IPC",
                "MOONCAKE_EP_MACA_IPC",
                "MOONCAKE_EP_MACA_P2P_PAIRS",
                "MOONCAKE_EP_NUM_LOCAL_RANKS",
                "MOONCAKE_EP_USE_MACA",
                "MOONCAKE_EP_USE_MUSA",
            ],
            NotBuilt("expert parallelism (mooncake.ep)"),
        ),
        (
            &[
                "MOONCAKE_P2P_CHUNK_SIZE",
                "MOONCAKE_P2P_POOL_SIZE",
                "MOONCAKE_PG_AUTO_DEACTIVATE_ON_FAILURE",
                "MOONCAKE_PG_AUTO_SYNC_ON_FAILURE",
            ],
            NotBuilt("the process group (mooncake.pg)"),
        ),
    ],
};
