//! Variables of links between accelerators, and of transports that belong to one vendor.

use super::Group;
use super::MooncakeEffect::{NotBuilt, NotNeeded};

pub(super) const LINKS: Group = Group {
    title: "Accelerators and vendors' transports",
    entries: &[
        (
            &[
                "MC_ENABLE_MNNVL",
                "MC_FORCE_MNNVL",
                "MC_INTRANODE_NVLINK",
                "MC_INTRA_NVLINK",
                "MC_USE_NVLINK_IPC",
            ],
            NotBuilt("NVLink"),
        ),
        (&["MC_CXL_DEV_PATH", "MC_CXL_DEV_SIZE"], NotBuilt("CXL memory")),
        (&["MC_EFA_CQ_THREADS", "MC_EFA_NIC_SELECTION", "FI_HMEM"], NotBuilt("EFA")),
        (
            &[
                "ACCL_LOCAL_DEVICE",
                "ACCL_MAX_PORT",
                "ACCL_MIN_PORT",
                "ACCL_USE_CPU",
                "ACCL_USE_NICS",
                "BAREX_USE_RANDOM_DEV",
                "MC_MIN_REG_SIZE",
                "USE_BAREX",
            ],
            NotBuilt("barex"),
        ),
        (
            &[
                "ASCEND_AUTO_CONNECT",
                "ASCEND_BASE_PORT",
                "ASCEND_BUFFER_POOL",
                "ASCEND_CONNECT_TIMEOUT",
                "ASCEND_ENABLE_USE_FABRIC_MEM",
                "ASCEND_GLOBAL_RESOURCE_CONFIG",
                "ASCEND_LOCAL_COMM_RES",
                "ASCEND_RDMA_SL",
                "ASCEND_RDMA_TC",
                "ASCEND_THREAD_POOL_SIZE",
                "ASCEND_TRANSFER_TIMEOUT",
                "ASCEND_TRANSPORT_EPOLL_WAIT_TIMEOUT",
                "ASCEND_TRANSPORT_MAX_REG_MEMORY_NUM",
                "ASCEND_TRANSPORT_PRINT",
                "ASCEND_TRANSPORT_TRANSFER_ENABLE_FAST_RECOVERY",
                "ASCEND_TRANSPORT_TRANSFER_MAX_RETRY_COUNT",
                "ASCEND_TRANSPORT_TRANSFER_TIMEOUT",
                "ASCEND_USE_ASYNC_TRANSFER",
                "ASCEND_USE_SHORT_CONNECTION",
                "Ascend_HCCL_SOCKET_TIMEOUT",
                "Ascend_TCP_TIMEOUT",
                "Ascend_TRANSPORT_MEM_TIMEOUT",
                "HCCL_INTRA_ROCE_ENABLE",
                "HCCL_RDMA_SL",
                "HCCL_RDMA_TC",
                "MC_UBSHMEM_GET_STREAM_TIMEOUT",
                "MC_UBSHMEM_MAX_STREAMS",
                "MC_UBSHMEM_STREAMS_PER_TRANSFER",
                "MC_UBSHMEM_THREAD_POOL_SIZE",
                "MC_USE_UBSHMEM_IPC",
            ],
            NotBuilt("Ascend"),
        ),
        (
            &[
                "MC_DISABLE_HIP",
                "MC_HIP_NUM_EVENTS",
                "MC_HIP_NUM_STREAMS",
                "MC_USE_HIP_IPC",
                "MOONCAKE_DISABLE_HIP_DMABUF",
            ],
            NotBuilt("AMD GPUs"),
        ),
        (
            &[
                "MC_DISABLE_MACA",
                "MC_MACA_BATCHFLAG_MIN_BYTES",
                "MC_MACA_CALLER_SYNC",
                "MC_MACA_COPY_API",
                "MC_MACA_HOST_TRANSPORT",
            ],
            NotBuilt("MetaX GPUs"),
        ),
        (
            &[
                "MC_DISABLE_MUSA",
                "MC_FORCE_MUSA",
                "MC_MUSA_COPY_API",
                "MC_MUSA_IPC_OPEN_DEVICE",
                "MC_MUSA_TRANSFER_BATCH_MIN_BYTES",
            ],
            NotBuilt("Moore Threads GPUs"),
        ),
        (
            &[
                "MC_TANGRT_LIB_ARCH",
                "MC_TANGRT_LIB_DIR",
                "MC_TANGRT_ROOT",
                "SUNRISE_USE_DEVICE_MEM",
            ],
            NotBuilt("Sunrise devices"),
        ),
        (&["MC_TPU_PJRT_LIB"], NotBuilt("TPUs")),
        (&["MPCOMM_REMOTE_TCP_PORT", "MPCOMM_TCP_PORT"], NotBuilt("MPComm")),
        (
            &["ASCEND_RT_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES"],
            NotNeeded("these devices are not used"),
        ),
    ],
};
