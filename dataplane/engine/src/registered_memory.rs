//! What peers may read and write: the registered buffers of this engine, in place or staged if they
//! are on a device.
//! Invariant: a range exists only with the right to use its buffer.

use crate::registry::{MemoryRegistry, RegionUse, RegisteredRegion};
use crate::request::Direction;
use perigee_device::{DeviceStage, GivenDevices};
use perigee_memory::reachable::Use;
use perigee_mover::{GrantedRange, MemoryOwner, PieceRequest, RangeStage, Scope};
use perigee_rdma::PeerSession;
use perigee_schemas::Status;
use perigee_shard::Guard as KeptMemory;
use std::sync::Arc;

/// The registered buffers as servers see them.
#[derive(Debug)]
pub(crate) struct RegisteredMemory {
    pub(crate) registry: Arc<MemoryRegistry>,
    /// Accelerators whose memory is staged.
    pub(crate) devices: Option<GivenDevices>,
}

/// A checked range of a buffer on a device.
#[derive(Debug)]
struct RangeOnDevice {
    used: Arc<RegionUse>,
    address: u64,
    bytes: u64,
    devices: GivenDevices,
    stage: Option<Arc<DeviceStage>>,
}

impl MemoryOwner for RegisteredMemory {
    type Session = PeerSession;

    /// Checks a range against the registered buffers and their rights.
    fn find(&self, request: &PieceRequest<'_>) -> Result<GrantedRange, Status> {
        let (address, bytes) = (request.piece.offset(), request.piece.bytes());
        if request.scope != Scope::Registered || request.guard.is_some() {
            return Err(Status::NotSupported);
        }
        let used = self.registry.use_range(address, bytes);
        let used = used.filter(|used| !used.region().is_private());
        let used = Arc::new(used.ok_or(Status::InvalidParams)?);
        let region: &Arc<RegisteredRegion> = used.region();
        let is_inside = region.address() <= address && bytes <= region.end() - address;
        debug_assert!(is_inside, "a right is to a range of one buffer");
        let (wanted, refused) = match request.direction {
            Direction::Read => (Use::Read, Status::InvalidRead),
            Direction::Write => (Use::Write, Status::InvalidWrite),
        };
        if !region.allows(address, bytes, wanted) {
            return Err(refused);
        }
        let kept = (Arc::as_ptr(region) as usize, used.clone() as KeptMemory);
        // SAFETY: the range lies in a registered buffer, whose owner keeps it until its last use
        // has ended, or a stage stands for it.
        let range = unsafe { GrantedRange::new(address as *mut u8, bytes, kept) };
        let devices = self.devices.clone().filter(|_| region.is_on_device());
        let Some(devices) = devices else {
            return Ok(range);
        };
        Ok(range.with_stage(Box::new(RangeOnDevice { used, address, bytes, devices, stage: None })))
    }
}

// SAFETY: the bytes are those of the stage, which is kept.
unsafe impl RangeStage for RangeOnDevice {
    fn load(&mut self, direction: Direction) -> Result<(*mut u8, KeptMemory), Status> {
        debug_assert!(self.used.region().is_on_device());
        let stage = DeviceStage::new(&self.devices, [(self.address, self.bytes)]);
        let stage = stage.map_err(|reason| not_staged(&reason))?;
        if direction == Direction::Read {
            stage.load().map_err(|reason| not_staged(&reason))?;
        }
        let stage = self.stage.insert(Arc::new(stage));
        Ok((stage.host(), stage.clone()))
    }

    fn store(&self) -> Result<(), Status> {
        let store = |stage: &Arc<DeviceStage>| stage.store(stage.host() as u64, self.bytes);
        let stored = self.stage.as_ref().map_or(Ok(()), store);
        stored.map_err(|reason| not_staged(&reason))
    }
}

fn not_staged(reason: &str) -> Status {
    tracing::warn!(reason, "Device memory cannot be staged");
    Status::TransferFail
}
