//! Regions of software devices. Invariant: the table of the network holds exactly the live regions;
//! the lock that guards it is held while bytes are copied, so a revoked region is never written.

use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::device::DmaBufRange;
use crate::error::VerbsError;
use crate::region::{Region, RegionAccess};

use super::device::OpenDevice;

/// A live region in the network's table, under its local key.
#[derive(Debug)]
pub(super) struct LiveRegion {
    pub(super) port: usize,
    pub(super) domain: u64,
    /// The address that work requests use.
    pub(super) address: u64,
    /// Where the bytes are in this process.
    pub(super) base: usize,
    pub(super) bytes: u64,
    pub(super) access: RegionAccess,
}

impl LiveRegion {
    /// The remote key that goes with a local one: never the same number, so that one taken for the
    /// other is refused.
    pub(super) fn remote_of(local: u32) -> u32 {
        local | 1
    }

    /// The local key of a remote one, if it can be one.
    pub(super) fn local_of(remote: u32) -> Option<u32> {
        (remote & 1 == 1).then_some(remote & !1)
    }
}

/// The handle of a region.
#[derive(Debug)]
pub(super) struct SoftwareRegion {
    pub(super) opened: Arc<OpenDevice>,
    pub(super) local_key: u32,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) access: RegionAccess,
    /// Keeps a mapped dma-buf mapped; declared last, so unmapped after the region is gone.
    pub(super) _mapping: Option<MappedBuffer>,
}

impl Region for SoftwareRegion {
    fn address(&self) -> u64 {
        self.address
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn local_key(&self) -> u32 {
        self.local_key
    }

    fn remote_key(&self) -> u32 {
        LiveRegion::remote_of(self.local_key)
    }

    fn access(&self) -> RegionAccess {
        self.access
    }

    fn revoke(&self) -> Result<(), VerbsError> {
        let mut state = self.opened.network().shared().lock();
        state.regions.remove(&self.local_key);
        Ok(())
    }

    fn revoked(&self) -> bool {
        let state = self.opened.network().shared().lock();
        !state.regions.contains_key(&self.local_key)
    }
}

impl Drop for SoftwareRegion {
    fn drop(&mut self) {
        // Revoking a software region cannot fail.
        let _ = self.revoke();
    }
}

/// A dma-buf (here any descriptor that can be mapped) as this process sees it.
#[derive(Debug)]
pub(super) struct MappedBuffer {
    base: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: an address range owned by the value; accesses are made by the network under its lock.
unsafe impl Send for MappedBuffer {}
// SAFETY: as above.
unsafe impl Sync for MappedBuffer {}

impl MappedBuffer {
    pub(super) fn map(
        device: &str,
        buffer: BorrowedFd<'_>,
        range: DmaBufRange,
        access: RegionAccess,
    ) -> Result<MappedBuffer, VerbsError> {
        let failed = |errno| VerbsError::Call {
            device: device.to_owned(),
            call: "ibv_reg_dmabuf_mr",
            errno,
        };
        let bytes = usize::try_from(range.bytes)
            .ok()
            .and_then(NonZeroUsize::new)
            .ok_or(failed(Errno::EINVAL))?;
        let offset = i64::try_from(range.offset_bytes).map_err(|_| failed(Errno::EINVAL))?;
        let protection = if access.local_write {
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE
        } else {
            ProtFlags::PROT_READ
        };
        // SAFETY: a new mapping at an address of the kernel's choice replaces no other mapping.
        let base = unsafe { mmap(None, bytes, protection, MapFlags::MAP_SHARED, buffer, offset) };
        Ok(MappedBuffer { base: base.map_err(failed)?, bytes: bytes.get() })
    }

    pub(super) fn base(&self) -> usize {
        self.base.as_ptr() as usize
    }
}

impl Drop for MappedBuffer {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and the region that named it is revoked.
        let _ = unsafe { munmap(self.base, self.bytes) };
    }
}
