//! Memory registered with a device.
//! Invariant: the registration is ended once, by whichever of revoke and drop comes first.

use std::ffi::{c_int, c_uint};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use perigee_memory::HostBuffer;

use crate::device::DmaBufRange;
use crate::error::VerbsError;
use crate::region::{Region, RegionAccess};

use super::abi::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_RELAXED_ORDERING, IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE, ibv_mr, ibv_pd,
};
use super::context::DeviceContext;
use super::failure::{of_registration, returned};
use super::library::{Library, RegMrIova2};

/// One registration.
#[derive(Debug)]
pub(super) struct HostRegion {
    context: Arc<DeviceContext>,
    /// Null once revoked. The lock is held while that happens: who comes second waits for the end.
    raw: Mutex<*mut ibv_mr>,
    address: u64,
    bytes: u64,
    local_key: u32,
    remote_key: u32,
    access: RegionAccess,
}

// SAFETY: the verbs interface is thread-safe by its specification, and the lock keeps the end of
// the registration to one thread.
unsafe impl Send for HostRegion {}
// SAFETY: as above.
unsafe impl Sync for HostRegion {}

pub(super) fn access_flags(access: RegionAccess) -> c_uint {
    // A device refuses remote writes without local ones.
    let flag = |on, flag| if on { flag } else { 0 };
    flag(access.local_write || access.remote_write, IBV_ACCESS_LOCAL_WRITE)
        | flag(access.remote_read, IBV_ACCESS_REMOTE_READ)
        | flag(access.remote_write, IBV_ACCESS_REMOTE_WRITE)
}

impl HostRegion {
    fn lock(&self) -> MutexGuard<'_, *mut ibv_mr> {
        // Nothing panics while the lock is held.
        self.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    /// As for [`crate::device::Device::register`].
    pub(super) unsafe fn register(
        context: &Arc<DeviceContext>,
        address: u64,
        bytes: u64,
        access: RegionAccess,
    ) -> Result<HostRegion, VerbsError> {
        check_range(context, address, bytes)?;
        let flags = access_flags(access);
        let memory = address as *mut std::ffi::c_void;
        // SAFETY: the domain is alive; what the memory must be is promised by the caller, and the
        // kernel refuses what is not mapped.
        let raw = unsafe {
            match context.relaxed {
                Some(register) => {
                    let flags = flags | IBV_ACCESS_RELAXED_ORDERING;
                    register(context.domain, memory, bytes as usize, address, flags)
                }
                None => {
                    let register = context.library.ibv_reg_mr;
                    register(context.domain, memory, bytes as usize, flags as c_int)
                }
            }
        };
        HostRegion::wrap(context, "ibv_reg_mr", raw, (address, bytes), access)
    }

    /// # Safety
    /// As for [`crate::device::Device::register_dmabuf`].
    pub(super) unsafe fn register_dmabuf(
        context: &Arc<DeviceContext>,
        buffer: BorrowedFd<'_>,
        range: DmaBufRange,
        access: RegionAccess,
    ) -> Result<HostRegion, VerbsError> {
        const CALL: &str = "ibv_reg_dmabuf_mr";
        check_range(context, range.address, range.bytes)?;
        let Some(register) = context.library.reg_dmabuf_mr else {
            return Err(context.failed(CALL, Errno::EOPNOTSUPP));
        };
        // SAFETY: the domain and the descriptor are alive; the device keeps the buffer's memory
        // alive by itself.
        let raw = unsafe {
            register(
                context.domain,
                range.offset_bytes,
                range.bytes as usize,
                range.address,
                buffer.as_raw_fd(),
                access_flags(access) as c_int,
            )
        };
        HostRegion::wrap(context, CALL, raw, (range.address, range.bytes), access)
    }

    fn wrap(
        context: &Arc<DeviceContext>,
        call: &'static str,
        raw: *mut ibv_mr,
        (address, bytes): (u64, u64),
        access: RegionAccess,
    ) -> Result<HostRegion, VerbsError> {
        if raw.is_null() {
            let errno = Errno::last();
            return Err(of_registration(context.name(), call, (address, bytes), errno));
        }
        // SAFETY: the library returned a registration, whose keys never change.
        let (local_key, remote_key) = unsafe { ((*raw).lkey, (*raw).rkey) };
        Ok(HostRegion {
            context: Arc::clone(context),
            raw: Mutex::new(raw),
            address,
            bytes,
            local_key,
            remote_key,
            access,
        })
    }
}

/// Asks for a dma-buf that does not exist: who takes any looks at the descriptor first, and finds
/// it bad.
pub(super) fn takes_dmabuf(library: &Library, domain: *mut ibv_pd) -> bool {
    const PAGE_BYTES: usize = 4096;
    let Some(register) = library.reg_dmabuf_mr else {
        return false;
    };
    // SAFETY: the domain is alive; there is no descriptor -1, so this fails in every case.
    let raw = unsafe { register(domain, 0, PAGE_BYTES, 0, -1, 0) };
    raw.is_null() && Errno::last() == Errno::EBADF
}

/// The call that registers with relaxed ordering, if library and device take it: found out with one
/// page.
pub(super) fn relaxed_register(library: &Library, domain: *mut ibv_pd) -> Option<RegMrIova2> {
    let register = library.reg_mr_iova2?;
    let page = HostBuffer::allocate(1).ok()?;
    let address = page.base();
    let flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
    // SAFETY: the domain is alive, and the buffer outlives the registration, which ends here.
    unsafe {
        let raw = register(domain, address.cast(), 1, address as u64, flags);
        if raw.is_null() {
            return None;
        }
        (library.ibv_dereg_mr)(raw);
    }
    Some(register)
}

fn check_range(context: &DeviceContext, address: u64, bytes: u64) -> Result<(), VerbsError> {
    let device = context.name().to_owned();
    if bytes == 0 || address.checked_add(bytes).is_none() {
        return Err(VerbsError::BadRange { device, address, bytes });
    }
    let limit = context.info.limits.region_bytes;
    if bytes > limit {
        return Err(VerbsError::TooMuch {
            device,
            what: "Bytes of one region",
            asked: bytes,
            limit,
        });
    }
    Ok(())
}

impl Region for HostRegion {
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
        self.remote_key
    }

    fn access(&self) -> RegionAccess {
        self.access
    }

    fn revoke(&self) -> Result<(), VerbsError> {
        let mut raw = self.lock();
        if raw.is_null() {
            return Ok(());
        }
        // SAFETY: the pointer is not null, so this was not done before. The device stops using the
        // memory before the call returns.
        let code = unsafe { (self.context.library.ibv_dereg_mr)(*raw) };
        if code != 0 {
            // Still registered: a later call may end it.
            return Err(self.context.failed("ibv_dereg_mr", returned(code)));
        }
        *raw = std::ptr::null_mut();
        Ok(())
    }

    fn revoked(&self) -> bool {
        self.lock().is_null()
    }
}

impl Drop for HostRegion {
    fn drop(&mut self) {
        // A failure leaves the registration to the end of the process.
        let _ = self.revoke();
    }
}
