//! What can go wrong with segments, and what to do about it.
//! Invariant: errors mean there is no segment; warnings mean there is one, slower than it could be.

use std::io;

use crate::limits::SEGMENT_BYTES_MAX;
use crate::size::format_bytes;

/// Why there is no segment or buffer.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// Zero bytes or more than an address space holds.
    #[error(
        "A segment cannot have {asked_bytes} bytes; give at least 1 byte and at most {}",
        format_bytes(SEGMENT_BYTES_MAX)
    )]
    Size {
        /// Size that the caller asked for.
        asked_bytes: u64,
    },
    /// More than can be had without swapping, or than the control group has left.
    #[error(
        "Cannot donate {} of memory: only {} are available here; set global_segment_size to less, free \
         memory, or raise the container's memory limit",
        format_bytes(*asked_bytes), format_bytes(*available_bytes)
    )]
    NotAvailable {
        /// Size that the caller asked for.
        asked_bytes: u64,
        /// Bytes available on the host or in the control group, whichever is less.
        available_bytes: u64,
    },
    /// The kernel refused.
    #[error(
        "Cannot reserve {} of memory ({source}); {} are available: {}",
        format_bytes(*asked_bytes), format_bytes(*available_bytes), advice(source)
    )]
    Memory {
        /// Size that the caller asked for.
        asked_bytes: u64,
        /// Bytes the kernel calls available, 0 if it does not say.
        available_bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file cannot be opened, filled or mapped.
    #[error("Cannot lend {path}: {source}; it must be a file that this user may read and write")]
    File {
        /// The file asked for.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The range does not lie within the file, or not on pages.
    #[error(
        "Cannot lend {bytes} bytes of {path} from {offset} on: it has {file_bytes} bytes, and the offset \
         must be a multiple of {page_bytes}"
    )]
    FileRange {
        /// The file asked for.
        path: String,
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        bytes: u64,
        /// Size of the file.
        file_bytes: u64,
        /// Size of a page of that file system.
        page_bytes: usize,
    },
    /// The range, or a part of it, is a segment already, of this process or another.
    #[error(
        "Cannot lend {bytes} bytes of {path} from {offset} on: some of them are lent already; \
         unmount that segment first or choose another range"
    )]
    Lent {
        /// The file asked for.
        path: String,
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        bytes: u64,
    },
    /// No such NUMA node.
    #[error("There is no NUMA node {node}; choose one of {online} or leave it out")]
    NumaNode {
        /// The node asked for.
        node: u32,
        /// The nodes there are, such as `0-1`.
        online: String,
    },
}

/// What was asked for and not done, without harm to correctness.
#[derive(Debug, thiserror::Error)]
pub enum SegmentWarning {
    /// The hugetlb pool is too small; ordinary pages are used.
    #[error(
        "No hugetlb pages for the segment ({source}): {needed_pages} needed, {free_pages} free; using \
         ordinary pages. Write at least {needed_pages} to \
         /sys/kernel/mm/hugepages/hugepages-{page_kib}kB/nr_hugepages"
    )]
    NoHugetlb {
        /// KiB of one page.
        page_kib: usize,
        /// Huge pages the segment needs.
        needed_pages: u64,
        /// Huge pages that were free.
        free_pages: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel will not join the pages of shared memory.
    #[error(
        "Transparent huge pages are off for shared memory (shmem_enabled is {setting}); write `advise` to \
         /sys/kernel/mm/transparent_hugepage/shmem_enabled for faster small transfers and registration"
    )]
    NoTransparentHugePages {
        /// The present setting.
        setting: String,
    },
    /// The pages may come from any node.
    #[error("Cannot bind the segment to NUMA node {node} ({source}); its pages may be on any node")]
    NotBound {
        /// The node asked for.
        node: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// The container or the host has less than was asked for.
    #[error(
        "Only {} of the {} asked for can be donated: the memory limit of the container, or of the host, leaves no more. \
         Set global_segment_size to less or raise the limit; with PERIGEE_STRICT_SEGMENT=1 this is an error",
        format_bytes(*bytes), format_bytes(*asked_bytes)
    )]
    Cut {
        /// Size that the caller asked for.
        asked_bytes: u64,
        /// Bytes of the segment.
        bytes: u64,
    },
    /// The thread that makes pages could not be started.
    #[error(
        "Cannot start the thread that makes a segment's pages ahead ({source}); first writes will be slower"
    )]
    NoThread {
        /// What the kernel said.
        source: io::Error,
    },
}

/// Why a peer's descriptor was not mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The descriptor could not be examined or mapped.
    #[error("Cannot map a peer's segment of {}: {source}", format_bytes(*announced_bytes))]
    Kernel {
        /// Bytes announced by the peer.
        announced_bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// The peer could take pages away under our feet.
    #[error("The peer's descriptor is not a memfd sealed against shrinking")]
    NotSealed,
    /// The file is not as long as announced.
    #[error(
        "The peer announced a segment of {announced_bytes} bytes but its file has {file_bytes}"
    )]
    Length {
        /// Bytes announced by the peer.
        announced_bytes: u64,
        /// Size of the file.
        file_bytes: u64,
    },
}

/// What to do where the kernel refuses memory.
fn advice(refusal: &io::Error) -> &'static str {
    match refusal.kind() {
        io::ErrorKind::PermissionDenied => {
            "it may be had, but not so: allow memfd_create in the seccomp profile of the container"
        }
        _ => {
            "donate less, free memory, or raise the container's memory limit, `ulimit -v` or \
             vm.overcommit_memory"
        }
    }
}
