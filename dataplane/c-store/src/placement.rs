//! `mooncake_replicate_config_t`: how objects are placed and kept. Invariant: its layout is that of
//! the header; a test compares both.

use crate::answer::CallFailure;
use perigee_c::{array, text};
use perigee_schemas::Status;
use perigee_store::ReplicateConfig;
use std::ffi::{c_char, c_int};

/// Most names that are read.
const PREFERRED_MAX: usize = 65_536;

/// As callers lay it out.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Copies on distinct segments.
    pub replica_num: usize,
    /// Not 0: evicted only when nothing else is left.
    pub with_soft_pin: c_int,
    /// Not 0: never evicted.
    pub with_hard_pin: c_int,
    /// Names of segments to try first.
    pub preferred_segments: *const *const c_char,
    /// How many.
    pub preferred_segments_count: usize,
}

/// The placement that a caller asks for; the usual one for null.
///
/// # Safety
/// `pointer` is null or points to a placement whose array has as many entries as it says, each
/// null or a text that ends with 0.
pub(crate) unsafe fn read(pointer: *const Placement) -> Result<ReplicateConfig, CallFailure> {
    // SAFETY: the caller's promise.
    let [given] = (unsafe { array("config", pointer, usize::from(!pointer.is_null())) })? else {
        return Ok(ReplicateConfig::default());
    };
    if given.replica_num == 0 || given.preferred_segments_count > PREFERRED_MAX {
        return Err(Status::InvalidParams.into());
    }
    let count = match given.preferred_segments.is_null() {
        true => 0,
        false => given.preferred_segments_count,
    };
    // SAFETY: as above.
    let names = unsafe { array("preferred_segments", given.preferred_segments, count) }?;
    let mut preferred_segments = Vec::with_capacity(count);
    for name in names.iter().filter(|name| !name.is_null()) {
        // SAFETY: as above.
        preferred_segments.push(unsafe { text("preferred_segments", *name) }?.to_owned());
    }
    Ok(ReplicateConfig {
        // More than there can be is best effort, as is more than there are segments.
        replica_num: u32::try_from(given.replica_num).unwrap_or(u32::MAX),
        with_soft_pin: given.with_soft_pin != 0,
        with_hard_pin: given.with_hard_pin != 0,
        preferred_segments,
        ..ReplicateConfig::default()
    })
}
