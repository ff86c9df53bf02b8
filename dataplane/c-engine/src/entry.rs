//! What callers lay out in memory. Invariant: size, order and offsets are those of the header; a
//! test compares them with what a C compiler makes of it.

use crate::limits::NIC_NAME_BYTES;
use std::ffi::{c_char, c_int, c_void};

/// `transfer_request_t`: one contiguous transfer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RequestEntry {
    /// 0 reads from the peer, 1 writes to it.
    pub opcode: c_int,
    /// Memory of this process.
    pub source: *mut c_void,
    /// What `openSegment` answered; 0 is this engine's own.
    pub target_id: i32,
    /// Address in the process that owns the segment.
    pub target_offset: u64,
    /// Bytes.
    pub length: u64,
}

/// `transfer_status_t`: how far a request is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusEntry {
    /// One of the `STATUS_` numbers.
    pub status: c_int,
    /// Bytes in place.
    pub transferred_bytes: u64,
}

/// `notify_msg_t`: a message of two texts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NotifyEntry {
    /// Name of the notify.
    pub name: *mut c_char,
    /// Text of the notify.
    pub msg: *mut c_char,
}

/// `buffer_entry_t`: memory to register.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BufferRange {
    /// First byte.
    pub addr: *mut c_void,
    /// Bytes.
    pub length: usize,
}

/// `nic_load_stat_t`: what is under way over one NIC.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NicLoad {
    /// Name of the device, ended by 0.
    pub device_name: [c_char; NIC_NAME_BYTES],
    /// Bytes posted and not completed.
    pub inflight_bytes: u64,
    /// Measured bandwidth in bytes per second.
    pub ewma_bandwidth_bps: f64,
}
