//! A segment of another process of this host, mapped from the descriptor it sent.
//! Invariant: nothing is mapped unless its file cannot shrink, so no access can raise SIGBUS.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::error::MapError;
use super::touched::TouchedParts;
use crate::limits::SEGMENT_BYTES_MAX;
use crate::mapping::{Access, Mapping, page_bytes, place};

/// A peer's segment in this process's address space.
#[derive(Debug)]
pub struct MappedSegment {
    mapping: Mapping,
    bytes: usize,
    access: Access,
    touched: TouchedParts,
    /// Pages of the hugetlb pool are set aside for the segment: no cgroup is charged for making
    /// one.
    from_pool: bool,
}

impl MappedSegment {
    /// Maps `file`, of which the peer says that it holds `announced_bytes`. The descriptor is
    /// closed in any case: the mapping does not need it.
    pub fn map(
        file: OwnedFd,
        announced_bytes: u64,
        access: Access,
    ) -> Result<MappedSegment, MapError> {
        let kernel = |source| MapError::Kernel { announced_bytes, source };
        if !is_sealed(&file) {
            return Err(MapError::NotSealed);
        }
        let stat = nix::sys::stat::fstat(&file).map_err(|errno| kernel(errno.into()))?;
        let file_bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let unit_bytes = u64::try_from(stat.st_blksize).unwrap_or(0).max(page_bytes() as u64);
        let spare_bytes = file_bytes.checked_sub(announced_bytes);
        let fits = spare_bytes.is_some_and(|spare_bytes| spare_bytes < unit_bytes);
        if !fits || announced_bytes == 0 || announced_bytes > SEGMENT_BYTES_MAX {
            return Err(MapError::Length { announced_bytes, file_bytes });
        }
        let too_large = |_| kernel(io::Error::from_raw_os_error(libc::ENOMEM));
        let mapped_bytes = usize::try_from(file_bytes).map_err(too_large)?;
        let bytes = usize::try_from(announced_bytes).map_err(too_large)?;
        let mapping = Mapping::shared(file.as_fd(), mapped_bytes, access).map_err(kernel)?;
        // No offset that is checked against `bytes` may lie beyond the mapping.
        assert!(bytes <= mapping.mapped_bytes());
        // Advice only: the pages are the donor's, and it has asked for huge ones if they exist.
        let _ = mapping.advise_huge_pages();
        Ok(MappedSegment {
            mapping,
            bytes,
            access,
            touched: TouchedParts::nothing(mapped_bytes),
            from_pool: is_from_pool(&file),
        })
    }

    /// First byte; page-aligned. Stores need [`Access::ReadWrite`].
    #[must_use]
    pub fn base(&self) -> *const u8 {
        self.mapping.base()
    }

    /// Usable bytes, as announced.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never true: a segment has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// What the mapping allows.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether the owner has made the pages of `len` bytes at `offset`. Elsewhere nothing may be
    /// read or written here: the page would be charged to this process, for as long as the owner
    /// keeps it.
    #[must_use]
    pub fn is_populated(&self, offset: u64, len: u64) -> bool {
        let inside = place(self.bytes, offset, len);
        let has_pages = |offset| self.touched.has_pages(&self.mapping, offset, len as usize);
        self.from_pool || inside.is_none_or(has_pages)
    }

    /// Address to read `len` bytes at `offset` from, if they lie within the segment.
    #[must_use]
    pub fn range(&self, offset: u64, len: u64) -> Option<*const u8> {
        let offset = place(self.bytes, offset, len)?;
        self.touched.touch(&self.mapping, offset, len as usize);
        Some(self.base().wrapping_add(offset))
    }

    /// Address to write `len` bytes at `offset` to, if they lie within the segment and it is
    /// writable.
    #[must_use]
    pub fn range_mut(&self, offset: u64, len: u64) -> Option<*mut u8> {
        if self.access == Access::ReadOnly {
            return None;
        }
        let offset = place(self.bytes, offset, len)?;
        self.touched.touch(&self.mapping, offset, len as usize);
        Some(self.mapping.base().wrapping_add(offset))
    }
}

fn is_sealed(file: &OwnedFd) -> bool {
    // SAFETY: F_GET_SEALS takes no argument and touches no memory; other files answer EINVAL.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

fn is_from_pool(file: &OwnedFd) -> bool {
    let facts = nix::sys::statfs::fstatfs(file);
    facts.is_ok_and(|facts| facts.filesystem_type() == nix::sys::statfs::HUGETLBFS_MAGIC)
}
