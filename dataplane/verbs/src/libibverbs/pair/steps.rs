//! The steps of a queue pair from made to connected: what each sets, and the mask that says so.
//! Invariant: both ends take the same packet size, and retries always have an end.

use std::ffi::c_int;

use nix::errno::Errno;

use crate::device_info::{DeviceInfo, LinkLayer};
use crate::error::VerbsError;
use crate::queue::{ConnectOptions, EndpointAddress, QueuePairOptions};

use super::super::abi::{
    IBV_QP_ACCESS_FLAGS, IBV_QP_AV, IBV_QP_DEST_QPN, IBV_QP_MAX_DEST_RD_ATOMIC,
    IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT,
    IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QP_TIMEOUT,
    IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, Zeroed, ibv_qp_attr,
};
use super::super::context::DeviceContext;
use super::super::facts::mtu_code;
use super::super::failure::returned;
use super::super::region::access_flags;

pub(super) const INIT_MASK: c_int =
    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
pub(super) const RECEIVE_MASK: c_int = IBV_QP_STATE
    | IBV_QP_AV
    | IBV_QP_PATH_MTU
    | IBV_QP_DEST_QPN
    | IBV_QP_RQ_PSN
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_MIN_RNR_TIMER;
pub(super) const SEND_MASK: c_int = IBV_QP_STATE
    | IBV_QP_SQ_PSN
    | IBV_QP_TIMEOUT
    | IBV_QP_RETRY_CNT
    | IBV_QP_RNR_RETRY
    | IBV_QP_MAX_QP_RD_ATOMIC;

/// 0.64 ms, the usual choice.
const MIN_RNR_TIMER: u8 = 12;

pub(super) fn to_init(context: &DeviceContext, options: &QueuePairOptions) -> ibv_qp_attr {
    let mut attributes = ibv_qp_attr::zeroed();
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = options.partition_index;
    attributes.port_num = context.info.port;
    attributes.qp_access_flags = access_flags(options.access);
    attributes
}

pub(super) fn to_receive(
    info: &DeviceInfo,
    own: &QueuePairOptions,
    remote: &EndpointAddress,
    options: &ConnectOptions,
) -> ibv_qp_attr {
    let mut attributes = ibv_qp_attr::zeroed();
    let mtu_bytes = info.mtu_bytes.min(own.mtu_bytes).min(remote.mtu_bytes);
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = mtu_code(mtu_bytes);
    attributes.dest_qp_num = remote.queue_pair;
    attributes.rq_psn = remote.sequence;
    attributes.max_dest_rd_atomic = reads(info, options);
    attributes.min_rnr_timer = MIN_RNR_TIMER;
    let address = &mut attributes.ah_attr;
    // On InfiniBand the local identifier decides, and the global one is needed beyond the subnet.
    address.is_global = 1;
    address.dlid = match info.link_layer {
        LinkLayer::InfiniBand => remote.lid,
        LinkLayer::Ethernet | LinkLayer::Unknown => 0,
    };
    address.sl = options.service_level;
    address.port_num = info.port;
    address.grh.dgid = remote.gid;
    address.grh.sgid_index = own.gid_index as u8;
    address.grh.hop_limit = options.hop_limit;
    address.grh.traffic_class = options.traffic_class;
    attributes
}

pub(super) fn to_send(info: &DeviceInfo, sequence: u32, options: &ConnectOptions) -> ibv_qp_attr {
    let mut attributes = ibv_qp_attr::zeroed();
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = sequence;
    attributes.timeout = options.timeout_exponent;
    attributes.retry_cnt = options.retries;
    attributes.rnr_retry = options.rnr_retries;
    attributes.max_rd_atomic = reads(info, options);
    attributes
}

fn reads(info: &DeviceInfo, options: &ConnectOptions) -> u8 {
    options.reads_outstanding.min(info.limits.reads_outstanding)
}

/// The GID that a queue pair will speak from.
pub(super) fn own_gid(context: &DeviceContext, index: u32) -> Result<[u8; 16], VerbsError> {
    const CALL: &str = "ibv_query_gid";
    let mut gid = [0; 16];
    let signed = c_int::try_from(index).map_err(|_| context.failed(CALL, Errno::EINVAL))?;
    // SAFETY: the context is open, and the library writes 16 bytes.
    let code = unsafe {
        (context.library.ibv_query_gid)(context.raw, context.info.port, signed, &raw mut gid)
    };
    match code {
        0 if gid != [0; 16] => Ok(gid),
        0 => Err(context.failed(CALL, Errno::EINVAL)),
        code => Err(context.failed(CALL, returned(code))),
    }
}
