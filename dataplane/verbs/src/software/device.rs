//! A host's view of the network, and its open devices.
//! Invariant: every call on an opening checks its epoch first; after a restart nothing old works.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, MutexGuard};

use nix::errno::Errno;

use crate::device::{Device, DeviceEvent, DmaBufRange, Fabric};
use crate::device_info::DeviceInfo;
use crate::error::VerbsError;
use crate::gid::PortGid;
use crate::queue::CompletionQueue;
use crate::region::{Region, RegionAccess};

use super::SoftwareNetwork;
use super::port::Opening;
use super::queue::SoftwareCompletionQueue;
use super::region::{LiveRegion, MappedBuffer, SoftwareRegion};
use super::signal::EventPipe;
use super::state::{FabricState, strikes};

/// What one host sees.
#[derive(Debug)]
pub(super) struct HostFabric {
    network: SoftwareNetwork,
    host: String,
}

impl HostFabric {
    pub(super) fn new(network: SoftwareNetwork, host: &str) -> HostFabric {
        HostFabric { network, host: host.to_owned() }
    }
}

impl Fabric for HostFabric {
    fn devices(&self) -> Result<Vec<DeviceInfo>, VerbsError> {
        let state = self.network.shared().lock();
        let own = state.ports.iter().filter(|port| port.host == self.host);
        let mut infos: Vec<DeviceInfo> = own
            .filter(|port| !port.lost)
            .map(|port| DeviceInfo { active: port.up, ..port.info.clone() })
            .collect();
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(infos)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>, VerbsError> {
        let (device, number) = match name.split_once(':') {
            Some((device, number)) => (device, number),
            None => (name, "1"),
        };
        let mut state = self.network.shared().lock();
        let port = state.find_port(&self.host, device)?;
        if number != "1" {
            return Err(VerbsError::UnknownPort {
                device: device.to_owned(),
                port: number.parse().unwrap_or(0),
                ports: 1,
            });
        }
        let number = state.next_serial();
        let found = &mut state.ports[port];
        if found.lost {
            return Err(lost(device, "ibv_open_device"));
        }
        let signal = Arc::new(EventPipe::new(device)?);
        found.openings.push(Opening {
            number,
            events: VecDeque::new(),
            signal: Arc::clone(&signal),
        });
        let opened = Arc::new(OpenDevice {
            network: self.network.clone(),
            port,
            number,
            epoch: found.epoch,
            takes_dmabuf: found.takes_dmabuf,
            info: DeviceInfo { active: found.up, ..found.info.clone() },
            signal,
        });
        Ok(Arc::new(SoftwareDevice { opened }))
    }
}

/// One opening of a device, alive as long as anything made through it.
#[derive(Debug)]
pub(super) struct OpenDevice {
    network: SoftwareNetwork,
    pub(super) port: usize,
    /// Also the number of the protection domain.
    pub(super) number: u64,
    epoch: u64,
    takes_dmabuf: bool,
    pub(super) info: DeviceInfo,
    signal: Arc<EventPipe>,
}

impl OpenDevice {
    pub(super) fn network(&self) -> &SoftwareNetwork {
        &self.network
    }

    /// The network's state, if the device is still the one that was opened.
    pub(super) fn lock(
        &self,
        call: &'static str,
    ) -> Result<MutexGuard<'_, FabricState>, VerbsError> {
        let state = self.network.shared().lock();
        if state.ports[self.port].epoch != self.epoch {
            return Err(lost(&self.info.name, call));
        }
        Ok(state)
    }

    /// As [`OpenDevice::lock`], and the device is not lost either.
    pub(super) fn lock_live(
        &self,
        call: &'static str,
    ) -> Result<MutexGuard<'_, FabricState>, VerbsError> {
        let state = self.lock(call)?;
        if state.ports[self.port].lost {
            return Err(lost(&self.info.name, call));
        }
        Ok(state)
    }

    pub(super) fn failed(&self, call: &'static str, errno: Errno) -> VerbsError {
        VerbsError::Call { device: self.info.name.clone(), call, errno }
    }

    pub(super) fn out_of_memory(&self, call: &'static str) -> VerbsError {
        VerbsError::OutOfMemory { device: self.info.name.clone(), call }
    }

    pub(super) fn check_most(
        &self,
        what: &'static str,
        asked: u64,
        limit: u64,
    ) -> Result<(), VerbsError> {
        if asked <= limit {
            return Ok(());
        }
        Err(VerbsError::TooMuch { device: self.info.name.clone(), what, asked, limit })
    }

    fn enter(
        self: &Arc<OpenDevice>,
        range: DmaBufRange,
        base: usize,
        mapping: Option<MappedBuffer>,
        access: RegionAccess,
    ) -> Result<Arc<dyn Region>, VerbsError> {
        const CALL: &str = "ibv_reg_mr";
        let mut state = self.lock_live(CALL)?;
        let refused = strikes(&mut state.ports[self.port].planned.refuse_registrations);
        let own = state.regions.values().filter(|region| region.port == self.port);
        if refused || own.count() >= self.info.limits.regions as usize {
            return Err(self.out_of_memory(CALL));
        }
        let serial = u32::try_from(state.next_serial()).map_err(|_| self.out_of_memory(CALL))?;
        let local_key = serial.wrapping_shl(1);
        state.regions.insert(
            local_key,
            LiveRegion {
                port: self.port,
                domain: self.number,
                address: range.address,
                base,
                bytes: range.bytes,
                access,
            },
        );
        Ok(Arc::new(SoftwareRegion {
            opened: Arc::clone(self),
            local_key,
            address: range.address,
            bytes: range.bytes,
            access,
            _mapping: mapping,
        }))
    }

    fn check_range(&self, address: u64, bytes: u64) -> Result<(), VerbsError> {
        if bytes == 0 || address.checked_add(bytes).is_none() {
            return Err(VerbsError::BadRange { device: self.info.name.clone(), address, bytes });
        }
        self.check_most("Bytes of one region", bytes, self.info.limits.region_bytes)
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let mut state = self.network.shared().lock();
        let number = self.number;
        state.ports[self.port].openings.retain(|opening| opening.number != number);
    }
}

#[derive(Debug)]
struct SoftwareDevice {
    opened: Arc<OpenDevice>,
}

impl Device for SoftwareDevice {
    fn info(&self) -> &DeviceInfo {
        &self.opened.info
    }

    fn port_active(&self) -> Result<bool, VerbsError> {
        let state = self.opened.lock_live("ibv_query_port")?;
        Ok(state.ports[self.opened.port].up)
    }

    fn gids(&self) -> Result<Vec<PortGid>, VerbsError> {
        let state = self.opened.lock_live("ibv_query_gid")?;
        Ok(state.ports[self.opened.port].gids.clone())
    }

    unsafe fn register(
        &self,
        address: u64,
        bytes: u64,
        access: RegionAccess,
    ) -> Result<Arc<dyn Region>, VerbsError> {
        self.opened.check_range(address, bytes)?;
        let range = DmaBufRange { offset_bytes: 0, bytes, address };
        self.opened.enter(range, address as usize, None, access)
    }

    unsafe fn register_dmabuf(
        &self,
        buffer: BorrowedFd<'_>,
        range: DmaBufRange,
        access: RegionAccess,
    ) -> Result<Arc<dyn Region>, VerbsError> {
        self.opened.check_range(range.address, range.bytes)?;
        if !self.opened.takes_dmabuf {
            return Err(VerbsError::Unsupported {
                device: self.opened.info.name.clone(),
                what: "ibv_reg_dmabuf_mr",
            });
        }
        let mapping = MappedBuffer::map(&self.opened.info.name, buffer, range, access)?;
        let base = mapping.base();
        self.opened.enter(range, base, Some(mapping), access)
    }

    fn knows_dmabuf(&self) -> bool {
        self.opened.takes_dmabuf
    }

    fn completion_queue(&self, entries: u32) -> Result<Arc<dyn CompletionQueue>, VerbsError> {
        let queue = SoftwareCompletionQueue::new(&self.opened, entries)?;
        Ok(Arc::new(queue))
    }

    fn event_fd(&self) -> BorrowedFd<'_> {
        self.opened.signal.fd()
    }

    fn take_event(&self) -> Result<Option<DeviceEvent>, VerbsError> {
        let mut state = self.opened.lock("ibv_get_async_event")?;
        let number = self.opened.number;
        let mut openings = state.ports[self.opened.port].openings.iter_mut();
        let Some(opening) = openings.find(|opening| opening.number == number) else {
            return Ok(None);
        };
        let event = opening.events.pop_front();
        if opening.events.is_empty() {
            let drained = self.opened.signal.drain();
            drained.map_err(|errno| self.opened.failed("ibv_get_async_event", errno))?;
        }
        Ok(event)
    }
}

fn lost(device: &str, call: &'static str) -> VerbsError {
    VerbsError::DeviceLost { device: device.to_owned(), call, errno: Errno::ENODEV }
}
