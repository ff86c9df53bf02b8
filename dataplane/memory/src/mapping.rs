//! One `mmap`ed run of pages, unmapped on drop.
//! Invariant: `base .. base + mapped_bytes` stays mapped for the life of the value, and [`place`]
//! is the only way from an offset to an address.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// What a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads only.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

impl Access {
    fn protection(self) -> libc::c_int {
        match self {
            Access::ReadOnly => libc::PROT_READ,
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// A mapped run of pages.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    mapped_bytes: usize,
}

// SAFETY: a mapping is an address range owned by the value; the pages may be used from any thread,
// and every access through the address is an unsafe act of its own.
unsafe impl Send for Mapping {}
// SAFETY: as above; the value itself has no interior state.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `mapped_bytes` of `file`, shared with every process that maps it.
    pub(crate) fn shared(
        file: BorrowedFd<'_>,
        mapped_bytes: usize,
        access: Access,
    ) -> io::Result<Mapping> {
        Mapping::map(mapped_bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
    }

    /// Maps `mapped_bytes` of `file` from `offset` on, a multiple of the page size, for loads and
    /// stores that are shared.
    pub(crate) fn of_file(
        file: BorrowedFd<'_>,
        offset: u64,
        mapped_bytes: usize,
    ) -> io::Result<Mapping> {
        let too_far = |_| io::Error::from_raw_os_error(libc::EOVERFLOW);
        let offset = libc::off_t::try_from(offset).map_err(too_far)?;
        let access = Access::ReadWrite;
        Mapping::map(mapped_bytes, access, libc::MAP_SHARED, file.as_raw_fd(), offset)
    }

    /// Maps `mapped_bytes` of zeros that belong to this process.
    pub(crate) fn anonymous(mapped_bytes: usize) -> io::Result<Mapping> {
        assert!(mapped_bytes.is_multiple_of(page_bytes()), "whole pages only");
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Mapping::map(mapped_bytes, Access::ReadWrite, flags, -1, 0)
    }

    fn map(
        mapped_bytes: usize,
        access: Access,
        flags: libc::c_int,
        fd: libc::c_int,
        offset: libc::off_t,
    ) -> io::Result<Mapping> {
        let (anywhere, protection) = (std::ptr::null_mut(), access.protection());
        // SAFETY: without MAP_FIXED the kernel picks unused addresses, so nothing existing is
        // touched.
        let base = unsafe { libc::mmap(anywhere, mapped_bytes, protection, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::other("The kernel mapped the zero address"))?;
        assert!(base.addr().get().is_multiple_of(page_bytes()));
        Ok(Mapping { base, mapped_bytes })
    }

    /// First byte.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Length, a whole number of pages.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.mapped_bytes
    }

    /// Asks for transparent huge pages; the kernel may say yes and still not provide any.
    pub(crate) fn advise_huge_pages(&self) -> io::Result<()> {
        self.advise(0, self.mapped_bytes, libc::MADV_HUGEPAGE)
    }

    /// `madvise` on `len` bytes at `offset`, both page-aligned and within the mapping.
    pub(crate) fn advise(&self, offset: usize, len: usize, advice: libc::c_int) -> io::Result<()> {
        debug_assert!(offset.is_multiple_of(page_bytes()), "advice is about pages");
        let inside = place(self.mapped_bytes, offset as u64, len as u64);
        let offset = inside.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        // SAFETY: the range was just checked to lie within the mapping; only non-destructive advice
        // is given in this crate.
        let status = unsafe { libc::madvise(self.base().add(offset).cast(), len, advice) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Mapping {
    /// Whether the page of a shared mapping that begins at `start` exists, also if another process
    /// made it. If the kernel does not say, true.
    pub(crate) fn is_resident(&self, start: usize) -> bool {
        debug_assert!(start.is_multiple_of(page_bytes()), "it is about a page");
        if place(self.mapped_bytes, start as u64, page_bytes() as u64).is_none() {
            return true;
        }
        let mut page = 0u8;
        // SAFETY: the page lies within the mapping, and there is a byte for it.
        let status =
            unsafe { libc::mincore(self.base().add(start).cast(), page_bytes(), &raw mut page) };
        status != 0 || page & 1 != 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value and is unmapped only here. It cannot fail for
        // a range that is mapped exactly so.
        let status = unsafe { libc::munmap(self.base().cast(), self.mapped_bytes) };
        debug_assert_eq!(status, 0, "what was mapped is unmapped once");
    }
}

/// `offset` as an index, if `len` bytes from it end within `total_bytes`.
pub(crate) fn place(total_bytes: usize, offset: u64, len: u64) -> Option<usize> {
    let end = offset.checked_add(len)?;
    if end > total_bytes as u64 {
        return None;
    }
    usize::try_from(offset).ok()
}

/// The page size of this machine.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    let answer = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(answer).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn only_runs_that_end_inside_have_a_place() {
        assert_eq!(place(100, 0, 100), Some(0));
        assert_eq!(place(100, 100, 0), Some(100));
        assert_eq!(place(100, 99, 1), Some(99));
        assert_eq!(place(100, 99, 2), None);
        assert_eq!(place(100, 101, 0), None);
        assert_eq!(place(100, u64::MAX, 2), None);
        assert_eq!(place(usize::MAX, u64::MAX, 1), None);
    }
}
