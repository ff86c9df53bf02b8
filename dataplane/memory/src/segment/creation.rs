//! Making the memfd and its mapping, with the fallbacks that cost speed only.
//! Invariant: what is returned is sealed against shrinking, mapped whole, and bound before first
//! touch.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use super::budget::Promise;
use super::{Pages, SegmentError, SegmentOptions, SegmentWarning, ShortagePolicy};
use crate::limits::{PART_BYTES, SEGMENT_BYTES_MAX, SEGMENT_CUT_BYTES_MIN};
use crate::mapping::{Mapping, page_bytes};
use crate::{memfd, meminfo, numa};

const NAME: &CStr = c"perigee-segment";
const SHMEM_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

pub(super) struct Created {
    pub(super) file: OwnedFd,
    pub(super) mapping: Mapping,
    /// Usable bytes.
    pub(super) bytes: u64,
    /// Whether the pages come from the hugetlb pool, which has set them aside.
    pub(super) reserved: bool,
    pub(super) warnings: Vec<SegmentWarning>,
}

pub(super) fn create(bytes: u64, options: &SegmentOptions) -> Result<Created, SegmentError> {
    if bytes == 0 || bytes > SEGMENT_BYTES_MAX {
        return Err(SegmentError::Size { asked_bytes: bytes });
    }
    let mut warnings = Vec::new();
    let from_pool = match options.pages {
        Pages::Hugetlb(page_bytes) => from_pool(bytes, page_bytes, &mut warnings),
        Pages::Transparent => None,
    };
    let reserved = from_pool.is_some();
    let (bytes, (file, mapping)) = match from_pool {
        Some(made) => (bytes, made),
        None => {
            let bytes = what_is_there(bytes, options.shortage, &mut warnings)?;
            (bytes, ordinary(bytes, &mut warnings)?)
        }
    };
    if let Some(node) = options.numa_node {
        bind(&mapping, node, &mut warnings)?;
    }
    // No offset that is checked against `bytes` may lie beyond the mapping.
    assert!(bytes > 0 && bytes <= mapping.mapped_bytes() as u64);
    Ok(Created { file, mapping, bytes, reserved, warnings })
}

/// Bytes of a segment for which `asked_bytes` were asked: all of them, or what the container and
/// the host can give.
fn what_is_there(
    asked_bytes: u64,
    shortage: ShortagePolicy,
    warnings: &mut Vec<SegmentWarning>,
) -> Result<u64, SegmentError> {
    let Some(room) = meminfo::headroom() else {
        return Ok(asked_bytes);
    };
    let spare_bytes = room.spare_bytes().saturating_sub(Promise::all_bytes());
    let cut_bytes = spare_bytes / PART_BYTES as u64 * PART_BYTES as u64;
    let refused = Err(SegmentError::NotAvailable { asked_bytes, available_bytes: room.left_bytes });
    match shortage {
        // The kernel would promise the memory and end the process when the segment fills.
        ShortagePolicy::Refuse if asked_bytes > room.left_bytes => refused,
        ShortagePolicy::Refuse => Ok(asked_bytes),
        ShortagePolicy::Cut if asked_bytes <= spare_bytes => Ok(asked_bytes),
        ShortagePolicy::Cut if cut_bytes < SEGMENT_CUT_BYTES_MIN => refused,
        ShortagePolicy::Cut => {
            warnings.push(SegmentWarning::Cut { asked_bytes, bytes: cut_bytes });
            Ok(cut_bytes)
        }
    }
}

fn from_pool(
    bytes: u64,
    page_bytes: Option<u64>,
    warnings: &mut Vec<SegmentWarning>,
) -> Option<(OwnedFd, Mapping)> {
    let asked_bytes = page_bytes.and_then(|page_bytes| usize::try_from(page_bytes).ok());
    let size_flag = asked_bytes.map_or(0, |page_bytes| page_bytes.ilog2() << libc::MFD_HUGE_SHIFT);
    let page_bytes = asked_bytes.unwrap_or_else(meminfo::huge_page_bytes);
    let made = memfd::sealed(NAME, bytes, page_bytes, libc::MFD_HUGETLB | size_flag);
    let warn = |source| {
        warnings.push(SegmentWarning::NoHugetlb {
            page_kib: page_bytes >> 10,
            needed_pages: bytes.div_ceil(page_bytes as u64),
            free_pages: meminfo::free_huge_pages(page_bytes),
            source,
        });
    };
    made.map_err(warn).ok()
}

fn ordinary(
    bytes: u64,
    warnings: &mut Vec<SegmentWarning>,
) -> Result<(OwnedFd, Mapping), SegmentError> {
    let made = memfd::sealed(NAME, bytes, page_bytes(), 0);
    let (file, mapping) = made.map_err(|source| SegmentError::Memory {
        asked_bytes: bytes,
        available_bytes: meminfo::headroom().map_or(0, |room| room.left_bytes),
        source,
    })?;
    let setting = meminfo::chosen(SHMEM_ENABLED).unwrap_or_else(|| "absent".to_owned());
    let off = matches!(setting.as_str(), "never" | "deny" | "absent");
    if mapping.advise_huge_pages().is_err() || off {
        warnings.push(SegmentWarning::NoTransparentHugePages { setting });
    }
    Ok((file, mapping))
}

pub(super) fn bind(
    mapping: &Mapping,
    node: u32,
    warnings: &mut Vec<SegmentWarning>,
) -> Result<(), SegmentError> {
    let Err(source) = numa::bind(mapping, node) else {
        return Ok(());
    };
    if source.raw_os_error() == Some(libc::EINVAL) {
        return Err(SegmentError::NumaNode { node, online: numa::online_nodes() });
    }
    // Kernels without NUMA and containers that forbid the call still have usable memory.
    warnings.push(SegmentWarning::NotBound { node, source });
    Ok(())
}
