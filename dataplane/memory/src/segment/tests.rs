//! Segments made, filled, passed and mapped within one process.
//! Invariant: a second mapping of the same descriptor stands for the peer.

use std::os::fd::AsFd;

use super::*;
use crate::limits::{AHEAD_BYTES, PART_BYTES};
use crate::mapping::page_bytes;

fn quiet() -> SegmentOptions {
    SegmentOptions { populate: Populate::OnRequest, ..SegmentOptions::default() }
}

#[test]
fn usable_bytes_are_exactly_those_asked_for() {
    let segment = Segment::create(3_000_001, &quiet()).unwrap();
    assert_eq!(segment.len(), 3_000_001);
    assert_eq!(segment.mapped_bytes(), 3_000_001usize.next_multiple_of(page_bytes()));
    assert!(segment.range(3_000_000, 1).is_some());
    assert_eq!(segment.range(3_000_000, 2), None);
    assert_eq!(segment.range(u64::MAX, 1), None);
    assert_eq!(segment.populated_bytes(), 0);
}

#[test]
fn impossible_sizes_are_refused_with_what_to_do() {
    let error = Segment::create(0, &quiet()).unwrap_err();
    assert!(matches!(error, SegmentError::Size { asked_bytes: 0 }));
    assert!(error.to_string().contains("at least 1 byte"), "{error}");
    assert!(matches!(Segment::create(u64::MAX, &quiet()), Err(SegmentError::Size { .. })));
}

#[test]
fn a_segment_beyond_the_available_memory_names_need_and_remedy() {
    let error = Segment::create(1 << 48, &quiet()).unwrap_err();
    assert!(
        matches!(error, SegmentError::NotAvailable { asked_bytes, .. } if asked_bytes == 1 << 48)
    );
    assert!(error.to_string().contains("Cannot donate 256 TiB of memory: only"), "{error}");
    assert!(error.to_string().contains("global_segment_size"), "{error}");
}

#[test]
fn a_segment_beyond_the_available_memory_is_cut_where_that_is_wanted() {
    let options = SegmentOptions { shortage: ShortagePolicy::Cut, ..quiet() };
    let segment = Segment::create(1 << 46, &options).unwrap();
    assert!(segment.len() >= PART_BYTES && segment.len() < 1 << 46);
    let cut = |warning: &SegmentWarning| {
        let text = warning.to_string();
        matches!(warning, SegmentWarning::Cut { asked_bytes, bytes }
            if *asked_bytes == 1 << 46 && *bytes == segment.len() as u64 && text.contains("64 TiB"))
    };
    assert!(segment.warnings().iter().any(cut), "{:?}", segment.warnings());
}

#[test]
fn pages_are_made_on_request_by_parts_and_keep_what_was_written() {
    let segment = Segment::create(20 << 20, &quiet()).unwrap();
    let last = segment.range((20 << 20) - 1, 1).unwrap();
    // SAFETY: the byte is within the segment; making pages never changes contents.
    unsafe { last.write(42) };
    segment.populate((20 << 20) - 1, 1).unwrap();
    segment.populate(PART_BYTES as u64 - 1, 2).unwrap();
    assert_eq!(segment.populated_bytes(), 3 * PART_BYTES);
    assert!(segment.is_populated(0, 2 * PART_BYTES as u64));
    assert!(!segment.is_populated(0, 2 * PART_BYTES as u64 + 1));
    assert!(segment.usable_bytes() == 20 << 20);
    segment.populate(20 << 20, 1).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { last.read() }, 42);
}

#[test]
fn a_peer_sees_which_pages_the_owner_has_made() {
    let segment = Segment::create(20 << 20, &quiet()).unwrap();
    let file = segment.fd().unwrap().try_clone_to_owned().unwrap();
    let peer = MappedSegment::map(file, 20 << 20, Access::ReadWrite).unwrap();
    let part = PART_BYTES as u64;
    assert!(!peer.is_populated(part, 1));
    segment.populate(part, part).unwrap();
    assert!(peer.is_populated(part, part));
    assert!(!peer.is_populated(part, part + 1) && !peer.is_populated(part - 1, 1));
    assert!(peer.range_mut(part, part).is_some());
    assert!(!peer.is_populated(2 * part, 1), "a peer makes no page");
}

#[test]
fn pages_are_made_ahead_of_the_last_request_and_no_further() {
    let bytes = 2 * AHEAD_BYTES as u64;
    let segment = Segment::create(bytes, &SegmentOptions::default()).unwrap();
    wait_for(&segment, AHEAD_BYTES);
    segment.populate(bytes - 1, 1).unwrap();
    assert_eq!(segment.populated_bytes(), AHEAD_BYTES + PART_BYTES);
    segment.populate(AHEAD_BYTES as u64, 1).unwrap();
    wait_for(&segment, 2 * AHEAD_BYTES);
}

fn wait_for(segment: &Segment, bytes: usize) {
    let start = std::time::Instant::now();
    while segment.populated_bytes() < bytes {
        let waited = start.elapsed();
        assert!(waited.as_secs() < 60, "{}", segment.populated_bytes());
        std::thread::yield_now();
    }
}

#[test]
fn dropping_a_segment_while_its_pages_are_made_ends_the_thread() {
    let options = SegmentOptions { populate: Populate::Whole, ..SegmentOptions::default() };
    let segment = Segment::create(1 << 30, &options).unwrap();
    let mapping = Arc::downgrade(&segment.mapping);
    drop(segment);
    assert!(mapping.upgrade().is_none(), "the pages are still held");
}

#[test]
fn a_missing_numa_node_is_named_together_with_those_there_are() {
    let options = SegmentOptions { numa_node: Some(5000), ..quiet() };
    let error = Segment::create(1 << 20, &options).unwrap_err();
    assert!(matches!(error, SegmentError::NumaNode { node: 5000, .. }), "{error}");
}

#[test]
fn the_first_numa_node_is_bound_or_warned_about() {
    let options = SegmentOptions { numa_node: Some(0), ..quiet() };
    let segment = Segment::create(1 << 20, &options).unwrap();
    let refused = |w: &SegmentWarning| matches!(w, SegmentWarning::NotBound { node: 0, .. });
    let bound = policy_of(segment.base()) == Some(MPOL_BIND);
    assert_eq!(bound, !segment.warnings().iter().any(refused));
}

const MPOL_BIND: libc::c_int = 2;
const MPOL_F_ADDR: libc::c_ulong = 2;

/// The memory policy of the page at `address`, if the kernel tells.
fn policy_of(address: *mut u8) -> Option<libc::c_int> {
    let mut policy: libc::c_int = -1;
    let no_mask = std::ptr::null_mut::<libc::c_ulong>();
    // SAFETY: the kernel writes one integer to `policy` and, without a mask, nothing else.
    let status = unsafe {
        let policy = &raw mut policy;
        libc::syscall(
            libc::SYS_get_mempolicy,
            policy,
            no_mask,
            0 as libc::c_ulong,
            address,
            MPOL_F_ADDR,
        )
    };
    (status == 0).then_some(policy)
}

#[test]
fn hugetlb_is_used_or_its_absence_is_a_warning() {
    let options = SegmentOptions { pages: Pages::Hugetlb(None), ..quiet() };
    let segment = Segment::create(3 << 20, &options).unwrap();
    let lacking = segment.warnings().iter().any(|w| matches!(w, SegmentWarning::NoHugetlb { .. }));
    assert_eq!(segment.mapped_bytes() == 3 << 20, lacking);
    assert_eq!(segment.len(), 3 << 20);
    // SAFETY: the byte is within the segment.
    unsafe { segment.range((3 << 20) - 1, 1).unwrap().write(1) };
}

#[test]
fn pages_of_the_size_that_is_asked_for_are_used_or_missed() {
    for page_bytes in [2 << 20, 1 << 30] {
        let options = SegmentOptions { pages: Pages::Hugetlb(Some(page_bytes)), ..quiet() };
        let segment = Segment::create(3 << 20, &options).unwrap();
        let missed = segment.warnings().iter().find_map(|warning| match warning {
            SegmentWarning::NoHugetlb { page_kib, needed_pages, .. } => {
                Some((*page_kib as u64 * 1024, *needed_pages))
            }
            _ => None,
        });
        let needed_pages = (3u64 << 20).div_ceil(page_bytes);
        match missed {
            Some(missed) => assert_eq!(missed, (page_bytes, needed_pages)),
            None => assert_eq!(segment.mapped_bytes() as u64, needed_pages * page_bytes),
        }
    }
}

#[test]
fn a_peer_sees_the_donors_bytes_and_the_donor_the_peers() {
    let segment = Segment::create(10_000, &quiet()).unwrap();
    let file = segment.fd().unwrap().try_clone_to_owned().unwrap();
    let peer = MappedSegment::map(file, 10_000, Access::ReadWrite).unwrap();
    // SAFETY: both addresses are within their mappings, and one thread uses them.
    unsafe {
        segment.range(9_999, 1).unwrap().write(1);
        assert_eq!(peer.range(9_999, 1).unwrap().read(), 1);
        peer.range_mut(0, 1).unwrap().write(2);
        assert_eq!(segment.base().read(), 2);
    }
    assert_eq!(peer.range(9_999, 2), None);
    assert_eq!(peer.range_mut(10_001, 0), None);
}

#[test]
fn a_read_only_mapping_gives_no_address_to_write_to() {
    let segment = Segment::create(10_000, &quiet()).unwrap();
    let file = segment.fd().unwrap().try_clone_to_owned().unwrap();
    let peer = MappedSegment::map(file, 10_000, Access::ReadOnly).unwrap();
    assert_eq!(peer.range_mut(0, 1), None);
    assert!(peer.range(0, 1).is_some());
}

#[test]
fn a_segment_outlives_the_donors_mapping() {
    let segment = Segment::create(4096, &quiet()).unwrap();
    // SAFETY: the byte is within the segment.
    unsafe { segment.base().write(77) };
    let file = segment.fd().unwrap().try_clone_to_owned().unwrap();
    let peer = MappedSegment::map(file, 4096, Access::ReadOnly).unwrap();
    drop(segment);
    // SAFETY: the byte is within the mapping.
    assert_eq!(unsafe { peer.base().read() }, 77);
}

#[test]
fn a_donor_cannot_shrink_what_it_has_passed() {
    let segment = Segment::create(8192, &quiet()).unwrap();
    assert!(nix::unistd::ftruncate(segment.fd().unwrap(), 0).is_err());
}

#[test]
fn an_unsealed_file_is_refused() {
    let file = unsealed().unwrap();
    nix::unistd::ftruncate(file.as_fd(), 4096).unwrap();
    let error = MappedSegment::map(file, 4096, Access::ReadOnly).unwrap_err();
    assert!(matches!(error, MapError::NotSealed), "{error}");
}

#[test]
fn a_length_that_the_file_does_not_have_is_refused() {
    for announced_bytes in [0, 1, 8193, 1 << 40, u64::MAX] {
        let segment = Segment::create(8192, &quiet()).unwrap();
        let file = segment.fd().unwrap().try_clone_to_owned().unwrap();
        let error = MappedSegment::map(file, announced_bytes, Access::ReadOnly).unwrap_err();
        assert!(matches!(error, MapError::Length { file_bytes: 8192, .. }), "{error}");
    }
}

/// A memfd that may be shrunk at any time.
fn unsealed() -> std::io::Result<std::os::fd::OwnedFd> {
    // SAFETY: the name is a C string.
    let raw = unsafe { libc::memfd_create(c"unsealed".as_ptr(), libc::MFD_CLOEXEC) };
    if raw < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(raw) })
}
