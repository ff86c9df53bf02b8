//! The binary interface of libibverbs, as far as it is used: structures, constants, functions.
//! Invariant: sizes and offsets are asserted, here against numbers when compiling and in the tests
//! against rdma-core's own headers. Names are those of the C headers.
//!
//! Structures that the library allocates are declared only up to the last field that is read, and
//! are never made or copied here.

use std::ffi::{c_char, c_int, c_uint, c_void};

#[repr(C)]
pub(super) struct ibv_device {
    _ops: [*mut c_void; 2],
    pub(super) node_type: c_int,
    pub(super) transport_type: c_int,
    pub(super) name: [c_char; 64],
}

#[repr(C)]
pub(super) struct ibv_context {
    pub(super) device: *mut ibv_device,
    pub(super) ops: ibv_context_ops,
    pub(super) cmd_fd: c_int,
    pub(super) async_fd: c_int,
    pub(super) num_comp_vectors: c_int,
}

pub(super) type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
pub(super) type ReqNotifyCq = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;
pub(super) type PostSend =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;

/// The calls of the data path: the header has them as inline functions through this table.
#[repr(C)]
pub(super) struct ibv_context_ops {
    _before_poll_cq: [*mut c_void; 11],
    pub(super) poll_cq: Option<PollCq>,
    pub(super) req_notify_cq: Option<ReqNotifyCq>,
    _before_post_send: [*mut c_void; 12],
    pub(super) post_send: Option<PostSend>,
    _after_post_send: [*mut c_void; 6],
}

#[repr(C)]
pub(super) struct ibv_pd {
    pub(super) context: *mut ibv_context,
    pub(super) handle: u32,
}

#[repr(C)]
pub(super) struct ibv_mr {
    pub(super) context: *mut ibv_context,
    pub(super) pd: *mut ibv_pd,
    pub(super) addr: *mut c_void,
    pub(super) length: usize,
    pub(super) handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

#[repr(C)]
pub(super) struct ibv_comp_channel {
    pub(super) context: *mut ibv_context,
    pub(super) fd: c_int,
    pub(super) refcnt: c_int,
}

#[repr(C)]
pub(super) struct ibv_cq {
    pub(super) context: *mut ibv_context,
    pub(super) channel: *mut ibv_comp_channel,
    pub(super) cq_context: *mut c_void,
    pub(super) handle: u32,
    pub(super) cqe: c_int,
}

#[repr(C)]
pub(super) struct ibv_qp {
    pub(super) context: *mut ibv_context,
    pub(super) qp_context: *mut c_void,
    pub(super) pd: *mut ibv_pd,
    pub(super) send_cq: *mut ibv_cq,
    pub(super) recv_cq: *mut ibv_cq,
    pub(super) srq: *mut c_void,
    pub(super) handle: u32,
    pub(super) qp_num: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_device_attr {
    pub(super) fw_ver: [c_char; 64],
    pub(super) node_guid: u64,
    pub(super) sys_image_guid: u64,
    pub(super) max_mr_size: u64,
    pub(super) page_size_cap: u64,
    pub(super) vendor_id: u32,
    pub(super) vendor_part_id: u32,
    pub(super) hw_ver: u32,
    pub(super) max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    pub(super) device_cap_flags: c_uint,
    pub(super) max_sge: c_int,
    pub(super) max_sge_rd: c_int,
    pub(super) max_cq: c_int,
    pub(super) max_cqe: c_int,
    pub(super) max_mr: c_int,
    pub(super) max_pd: c_int,
    pub(super) max_qp_rd_atom: c_int,
    pub(super) max_ee_rd_atom: c_int,
    pub(super) max_res_rd_atom: c_int,
    pub(super) max_qp_init_rd_atom: c_int,
    pub(super) _between: [c_int; 16],
    pub(super) max_pkeys: u16,
    pub(super) local_ca_ack_delay: u8,
    pub(super) phys_port_cnt: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_port_attr {
    pub(super) state: c_int,
    pub(super) max_mtu: c_int,
    pub(super) active_mtu: c_int,
    pub(super) gid_tbl_len: c_int,
    pub(super) port_cap_flags: u32,
    pub(super) max_msg_sz: u32,
    pub(super) bad_pkey_cntr: u32,
    pub(super) qkey_viol_cntr: u32,
    pub(super) pkey_tbl_len: u16,
    pub(super) lid: u16,
    pub(super) sm_lid: u16,
    pub(super) lmc: u8,
    pub(super) max_vl_num: u8,
    pub(super) sm_sl: u8,
    pub(super) subnet_timeout: u8,
    pub(super) init_type_reply: u8,
    pub(super) active_width: u8,
    pub(super) active_speed: u8,
    pub(super) phys_state: u8,
    pub(super) link_layer: u8,
    pub(super) flags: u8,
    pub(super) port_cap_flags2: u16,
    /// Newer libraries write more; room for it.
    _room: [u32; 4],
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct ibv_gid_entry {
    pub(super) gid: [u8; 16],
    pub(super) gid_index: u32,
    pub(super) port_num: u32,
    pub(super) gid_type: u32,
    pub(super) ndev_ifindex: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_qp_cap {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

#[repr(C)]
pub(super) struct ibv_qp_init_attr {
    pub(super) qp_context: *mut c_void,
    pub(super) send_cq: *mut ibv_cq,
    pub(super) recv_cq: *mut ibv_cq,
    pub(super) srq: *mut c_void,
    pub(super) cap: ibv_qp_cap,
    pub(super) qp_type: c_int,
    pub(super) sq_sig_all: c_int,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct ibv_global_route {
    pub(super) dgid: [u8; 16],
    pub(super) flow_label: u32,
    pub(super) sgid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_ah_attr {
    pub(super) grh: ibv_global_route,
    pub(super) dlid: u16,
    pub(super) sl: u8,
    pub(super) src_path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_qp_attr {
    pub(super) qp_state: c_int,
    pub(super) cur_qp_state: c_int,
    pub(super) path_mtu: c_int,
    pub(super) path_mig_state: c_int,
    pub(super) qkey: u32,
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) dest_qp_num: u32,
    pub(super) qp_access_flags: c_uint,
    pub(super) cap: ibv_qp_cap,
    pub(super) ah_attr: ibv_ah_attr,
    pub(super) alt_ah_attr: ibv_ah_attr,
    pub(super) pkey_index: u16,
    pub(super) alt_pkey_index: u16,
    pub(super) en_sqd_async_notify: u8,
    pub(super) sq_draining: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) port_num: u8,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) alt_port_num: u8,
    pub(super) alt_timeout: u8,
    pub(super) rate_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_sge {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// With the `rdma` arm of the union `wr`; the other arms are longer, so room is left behind it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_send_wr {
    pub(super) wr_id: u64,
    pub(super) next: *mut ibv_send_wr,
    pub(super) sg_list: *mut ibv_sge,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_int,
    pub(super) send_flags: c_uint,
    pub(super) imm_data: u32,
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    _other_arms: [u32; 19],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_wc {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    pub(super) opcode: c_int,
    pub(super) vendor_err: u32,
    pub(super) byte_len: u32,
    pub(super) imm_data: u32,
    pub(super) qp_num: u32,
    pub(super) src_qp: u32,
    pub(super) wc_flags: c_uint,
    pub(super) pkey_index: u16,
    pub(super) slid: u16,
    pub(super) sl: u8,
    pub(super) dlid_path_bits: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union ibv_async_element {
    pub(super) qp: *mut ibv_qp,
    pub(super) port_num: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_async_event {
    pub(super) element: ibv_async_element,
    pub(super) event_type: c_int,
}

pub(super) const IBV_ACCESS_LOCAL_WRITE: c_uint = 1;
pub(super) const IBV_ACCESS_REMOTE_WRITE: c_uint = 1 << 1;
pub(super) const IBV_ACCESS_REMOTE_READ: c_uint = 1 << 2;
/// The first of the optional flags, which those who do not know them ignore.
pub(super) const IBV_ACCESS_RELAXED_ORDERING: c_uint = 1 << 20;

pub(super) const IBV_PORT_ACTIVE: c_int = 4;
pub(super) const IBV_LINK_LAYER_INFINIBAND: u8 = 1;
pub(super) const IBV_LINK_LAYER_ETHERNET: u8 = 2;

pub(super) const IBV_GID_TYPE_IB: u32 = 0;
pub(super) const IBV_GID_TYPE_ROCE_V1: u32 = 1;
pub(super) const IBV_GID_TYPE_ROCE_V2: u32 = 2;

pub(super) const IBV_QPT_RC: c_int = 2;
pub(super) const IBV_QPS_INIT: c_int = 1;
pub(super) const IBV_QPS_RTR: c_int = 2;
pub(super) const IBV_QPS_RTS: c_int = 3;
pub(super) const IBV_QPS_ERR: c_int = 6;

pub(super) const IBV_QP_STATE: c_int = 1;
pub(super) const IBV_QP_ACCESS_FLAGS: c_int = 1 << 3;
pub(super) const IBV_QP_PKEY_INDEX: c_int = 1 << 4;
pub(super) const IBV_QP_PORT: c_int = 1 << 5;
pub(super) const IBV_QP_AV: c_int = 1 << 7;
pub(super) const IBV_QP_PATH_MTU: c_int = 1 << 8;
pub(super) const IBV_QP_TIMEOUT: c_int = 1 << 9;
pub(super) const IBV_QP_RETRY_CNT: c_int = 1 << 10;
pub(super) const IBV_QP_RNR_RETRY: c_int = 1 << 11;
pub(super) const IBV_QP_RQ_PSN: c_int = 1 << 12;
pub(super) const IBV_QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub(super) const IBV_QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub(super) const IBV_QP_SQ_PSN: c_int = 1 << 16;
pub(super) const IBV_QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub(super) const IBV_QP_DEST_QPN: c_int = 1 << 20;

pub(super) const IBV_WR_RDMA_WRITE: c_int = 0;
pub(super) const IBV_WR_RDMA_READ: c_int = 4;
pub(super) const IBV_SEND_SIGNALED: c_uint = 1 << 1;
pub(super) const IBV_SEND_INLINE: c_uint = 1 << 3;

pub(super) const IBV_WC_SUCCESS: c_int = 0;
pub(super) const IBV_WC_LOC_LEN_ERR: c_int = 1;
pub(super) const IBV_WC_LOC_QP_OP_ERR: c_int = 2;
pub(super) const IBV_WC_LOC_PROT_ERR: c_int = 4;
pub(super) const IBV_WC_WR_FLUSH_ERR: c_int = 5;
pub(super) const IBV_WC_LOC_ACCESS_ERR: c_int = 8;
pub(super) const IBV_WC_REM_INV_REQ_ERR: c_int = 9;
pub(super) const IBV_WC_REM_ACCESS_ERR: c_int = 10;
pub(super) const IBV_WC_REM_OP_ERR: c_int = 11;
pub(super) const IBV_WC_RETRY_EXC_ERR: c_int = 12;
pub(super) const IBV_WC_RNR_RETRY_EXC_ERR: c_int = 13;
pub(super) const IBV_WC_FATAL_ERR: c_int = 19;

pub(super) const IBV_EVENT_QP_FATAL: c_int = 1;
pub(super) const IBV_EVENT_QP_REQ_ERR: c_int = 2;
pub(super) const IBV_EVENT_QP_ACCESS_ERR: c_int = 3;
pub(super) const IBV_EVENT_DEVICE_FATAL: c_int = 8;
pub(super) const IBV_EVENT_PORT_ACTIVE: c_int = 9;
pub(super) const IBV_EVENT_PORT_ERR: c_int = 10;
pub(super) const IBV_EVENT_LID_CHANGE: c_int = 11;
pub(super) const IBV_EVENT_GID_CHANGE: c_int = 18;

/// A structure of this crate whose bytes may all be zero: numbers, and pointers that may be null.
///
/// # Safety
/// Only for types for which that is so.
pub(super) unsafe trait Zeroed: Sized {
    fn zeroed() -> Self {
        // SAFETY: the implementor says that zeros are a value of the type.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! zeroed {
    ($($name:ident = $bytes:literal),* $(,)?) => {
        $(
            // SAFETY: numbers and nullable pointers only.
            unsafe impl Zeroed for $name {}
            const _: () = assert!(size_of::<$name>() == $bytes);
        )*
    };
}

// On every 64-bit host of Linux. The port's structure has 16 bytes of room at its end.
zeroed! {
    ibv_device_attr = 232,
    ibv_port_attr = 68,
    ibv_gid_entry = 32,
    ibv_qp_init_attr = 64,
    ibv_qp_attr = 144,
    ibv_send_wr = 128,
    ibv_sge = 16,
    ibv_wc = 48,
    ibv_async_event = 16,
}

#[cfg(test)]
mod tests;
