//! An open device with its protection domain.
//! Invariant: closed only after everything made through it is gone, because all of that holds it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use nix::errno::Errno;

use crate::device::{Device, DeviceEvent, DmaBufRange};
use crate::device_info::DeviceInfo;
use crate::error::VerbsError;
use crate::gid::PortGid;
use crate::limits::INLINE_STEPS_BYTES;
use crate::ordering;
use crate::queue::{CompletionQueue, QueuePairOptions};
use crate::region::{Region, RegionAccess};

use super::abi::{IBV_PORT_ACTIVE, ibv_context, ibv_device, ibv_pd};
use super::completion::{CompletionChannel, HostCompletionQueue};
use super::library::{Library, RegMrIova2};
use super::region::HostRegion;
use super::{events, facts, failure, gids, pair, region};

/// The open device.
#[derive(Debug)]
pub(super) struct DeviceContext {
    pub(super) library: Arc<Library>,
    pub(super) raw: *mut ibv_context,
    pub(super) domain: *mut ibv_pd,
    pub(super) info: DeviceInfo,
    takes_dmabuf: bool,
    /// How memory is registered with relaxed ordering, where that is wanted and possible.
    pub(super) relaxed: Option<RegMrIova2>,
}

// SAFETY: the verbs interface is thread-safe by its specification; a context and a domain may be
// used from all threads at once.
unsafe impl Send for DeviceContext {}
// SAFETY: as above.
unsafe impl Sync for DeviceContext {}

impl DeviceContext {
    /// Opens `device`, called `name`, at `port` or the first active one.
    ///
    /// # Safety
    /// `device` is an entry of a device list that is not freed yet.
    pub(super) unsafe fn open(
        library: &Arc<Library>,
        name: &str,
        device: *mut ibv_device,
        port: Option<u8>,
    ) -> Result<DeviceContext, VerbsError> {
        // SAFETY: promised by the caller.
        let raw = unsafe { (library.ibv_open_device)(device) };
        if raw.is_null() {
            return Err(failure::meaning(name, failure::OPEN, Errno::last()));
        }
        // From here on the device is closed by dropping.
        let mut context = DeviceContext {
            library: Arc::clone(library),
            raw,
            domain: std::ptr::null_mut(),
            info: facts::describe_none(name),
            takes_dmabuf: false,
            relaxed: None,
        };
        context.info = context.find_port(port)?;
        events::make_nonblocking(&context.info.name, context.async_fd())?;
        // SAFETY: the context is open.
        context.domain = unsafe { (library.ibv_alloc_pd)(raw) };
        if context.domain.is_null() {
            return Err(failure::meaning(name, "ibv_alloc_pd", Errno::last()));
        }
        context.info.limits.inline_bytes = context.largest_inline();
        context.takes_dmabuf = region::takes_dmabuf(library, context.domain);
        if wants_relaxed() {
            context.relaxed = region::relaxed_register(library, context.domain);
            let relaxed = context.relaxed.is_some();
            tracing::info!(device = name, relaxed, "PCI relaxed ordering was asked for");
        }
        Ok(context)
    }

    fn find_port(&self, asked: Option<u8>) -> Result<DeviceInfo, VerbsError> {
        let name = &self.info.name;
        let device = facts::query_device(&self.library, name, self.raw)?;
        let ports = device.phys_port_cnt;
        if let Some(port) = asked.filter(|port| !(1..=ports).contains(port)) {
            return Err(VerbsError::UnknownPort { device: name.clone(), port, ports });
        }
        let query = |port| facts::query_port(&self.library, name, self.raw, port);
        let mut chosen = asked.unwrap_or(1);
        if asked.is_none() {
            for port in 1..=ports {
                if query(port)?.state == IBV_PORT_ACTIVE {
                    chosen = port;
                    break;
                }
            }
        }
        Ok(facts::describe(name, chosen, &device, &query(chosen)?))
    }

    /// Asks for less and less inline data until a queue pair can be made. Nothing tells it before.
    fn largest_inline(&self) -> u32 {
        let Ok(channel) = CompletionChannel::open_raw(self, 1) else {
            return 0;
        };
        let granted = INLINE_STEPS_BYTES.into_iter().find(|inline_bytes| {
            let options = QueuePairOptions {
                send_entries: 1,
                inline_bytes: *inline_bytes,
                ..QueuePairOptions::default()
            };
            pair::can_create(self, channel.queue, &options)
        });
        channel.close(&self.library);
        granted.unwrap_or(0)
    }

    pub(super) fn name(&self) -> &str {
        &self.info.name
    }

    /// What the errno of a failed call means here.
    pub(super) fn failed(&self, call: &'static str, errno: Errno) -> VerbsError {
        failure::meaning(self.name(), call, errno)
    }

    pub(super) fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open as long as `self` lives, and its descriptor with it.
        unsafe { BorrowedFd::borrow_raw((*self.raw).async_fd) }
    }
}

fn wants_relaxed() -> bool {
    let asked = ordering::is_relaxed(|name| std::env::var(name).ok());
    asked.unwrap_or_else(|value| {
        let variable = ordering::ORDERING_VARIABLE;
        tracing::warn!(variable, value, "Neither 0, 1 nor 2; devices write in order");
        false
    })
}

impl Drop for DeviceContext {
    fn drop(&mut self) {
        // SAFETY: nothing made through the context or its domain is left: all of it holds `self`.
        // Failures leave the handles to the end of the process; there is nothing better to do.
        unsafe {
            if !self.domain.is_null() {
                (self.library.ibv_dealloc_pd)(self.domain);
            }
            (self.library.ibv_close_device)(self.raw);
        }
    }
}

/// The handle that users of the crate hold.
#[derive(Debug)]
pub(super) struct HostDevice {
    pub(super) context: Arc<DeviceContext>,
}

impl Device for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.context.info
    }

    fn port_active(&self) -> Result<bool, VerbsError> {
        let context = &self.context;
        let port = context.info.port;
        let at = facts::query_port(&context.library, context.name(), context.raw, port)?;
        Ok(at.state == IBV_PORT_ACTIVE)
    }

    fn gids(&self) -> Result<Vec<PortGid>, VerbsError> {
        gids::read(&self.context)
    }

    unsafe fn register(
        &self,
        address: u64,
        bytes: u64,
        access: RegionAccess,
    ) -> Result<Arc<dyn Region>, VerbsError> {
        // SAFETY: the caller's promise is that of this function.
        let region = unsafe { HostRegion::register(&self.context, address, bytes, access) }?;
        Ok(Arc::new(region))
    }

    unsafe fn register_dmabuf(
        &self,
        buffer: BorrowedFd<'_>,
        range: DmaBufRange,
        access: RegionAccess,
    ) -> Result<Arc<dyn Region>, VerbsError> {
        // SAFETY: the caller's promise is that of this function.
        let region = unsafe { HostRegion::register_dmabuf(&self.context, buffer, range, access) }?;
        Ok(Arc::new(region))
    }

    fn knows_dmabuf(&self) -> bool {
        self.context.takes_dmabuf
    }

    fn completion_queue(&self, entries: u32) -> Result<Arc<dyn CompletionQueue>, VerbsError> {
        let queue = HostCompletionQueue::create(&self.context, entries)?;
        Ok(Arc::new(queue))
    }

    fn event_fd(&self) -> BorrowedFd<'_> {
        self.context.async_fd()
    }

    fn take_event(&self) -> Result<Option<DeviceEvent>, VerbsError> {
        events::take(&self.context)
    }
}
