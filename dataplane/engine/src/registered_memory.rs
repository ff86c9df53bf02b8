//! What peers may read and write: the registered buffers of this engine, in place or staged if they
//! are on a device.
//! Invariant: a range exists only with the right to use its buffer.

use crate::registry::{MemoryRegistry, RegionUse, RegisteredRegion};
use crate::request::Direction;
use perigee_device::{DeviceStage, GivenDevices};
use perigee_mover::{CounterTable, Guard, MemoryOwner, Piece, Range, RouteCounters, Scope};
use perigee_rdma::{PeerSession, Rdma};
use perigee_schemas::{Identity, Status};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The registered buffers as servers see them.
#[derive(Debug)]
pub(crate) struct RegisteredMemory {
    registry: Arc<MemoryRegistry>,
    /// Random identity of this engine's run.
    identity: Identity,
    ledger: Arc<CounterTable>,
    /// Accelerators whose memory is staged.
    devices: Option<GivenDevices>,
    /// Over which peers reach the same buffers.
    rdma: Option<Arc<Rdma>>,
}

/// A checked range of a registered buffer.
#[derive(Debug)]
pub(crate) struct RegisteredRange {
    used: Arc<RegionUse>,
    address: u64,
    bytes: u64,
    /// The devices that it is on, if it must be staged.
    devices: Option<GivenDevices>,
    stage: Option<Arc<DeviceStage>>,
}

impl RegisteredMemory {
    pub(crate) fn new(
        identity: Identity,
        registry: &Arc<MemoryRegistry>,
        ledger: &Arc<CounterTable>,
        (devices, rdma): (Option<&GivenDevices>, Option<&Arc<Rdma>>),
    ) -> Self {
        Self {
            registry: registry.clone(),
            identity,
            ledger: ledger.clone(),
            devices: devices.cloned(),
            rdma: rdma.cloned(),
        }
    }
}

impl MemoryOwner for RegisteredMemory {
    type Range = RegisteredRange;
    type Session = PeerSession;

    fn identity(&self) -> Identity {
        self.identity
    }

    /// Checks a range against the registered buffers and their rights.
    fn find(
        &self,
        scope: Scope,
        direction: Direction,
        piece: &Piece,
        guard: Option<&Guard>,
    ) -> Result<RegisteredRange, Status> {
        let (address, bytes) = (piece.offset(), piece.bytes());
        if scope != Scope::Registered || guard.is_some() {
            return Err(Status::NotSupported);
        }
        let used = self.registry.use_range(address, bytes);
        let used = used.filter(|used| !used.region().is_private());
        let used = used.ok_or(Status::InvalidParams)?;
        let region: &Arc<RegisteredRegion> = used.region();
        if direction == Direction::Write && !region.takes_writes(address, bytes) {
            return Err(Status::InvalidWrite);
        }
        let devices = self.devices.clone().filter(|_| region.is_on_device());
        Ok(RegisteredRange { used: Arc::new(used), address, bytes, devices, stage: None })
    }

    fn session(&self) -> PeerSession {
        PeerSession::new(self.rdma.clone())
    }

    fn counters(&self, socket: Option<BorrowedFd<'_>>) -> Arc<RouteCounters> {
        self.ledger.arriving_over(socket)
    }
}

// SAFETY: the range lies in a registered buffer, whose owner keeps it until its last use has ended,
// or is a stage.
unsafe impl Range for RegisteredRange {
    fn host(&self) -> *mut u8 {
        let staged = self.stage.as_ref().map(|stage| stage.host());
        staged.unwrap_or(self.address as *mut u8)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn keep(&self) -> perigee_shard::Guard {
        match &self.stage {
            Some(stage) => stage.clone(),
            None => self.used.clone(),
        }
    }

    fn memory(&self) -> usize {
        Arc::as_ptr(self.used.region()) as usize
    }

    fn stage(&mut self, direction: Direction) -> Result<(), Status> {
        let Some(devices) = &self.devices else {
            return Ok(());
        };
        let stage = DeviceStage::new(devices, [(self.address, self.bytes)]);
        let stage = stage.map_err(|reason| not_staged(&reason))?;
        if direction == Direction::Read {
            stage.load().map_err(|reason| not_staged(&reason))?;
        }
        self.stage = Some(Arc::new(stage));
        Ok(())
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
