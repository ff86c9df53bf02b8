//! Where the bytes of a piece are while they are sent or received: in place, or staged if the buffer is on a device.
//! Invariant: a ground exists only with the right to use its range.

use super::Host;
use crate::registry::{Region, RegionUse};
use crate::request::Direction;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use nix::unistd::Pid;
use perigee_device::Stage;
use perigee_memory::checksum::crc32c_raw;
use perigee_schemas::Status;
use perigee_shard::Message;
use std::io::{IoSlice, Read, Write};
use std::sync::Arc;

/// A checked range of a registered buffer.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    used: Arc<RegionUse>,
    address: u64,
    bytes: u64,
    /// Bytes of the stage before the first.
    skipped: u64,
    stage: Option<Arc<Stage>>,
}

impl Ground {
    /// Checks a range against the registered buffers and their rights, and stages it if it must be.
    pub(super) fn find(
        host: &Host,
        direction: Direction,
        address: u64,
        bytes: u64,
    ) -> Result<Self, Status> {
        let used = host
            .registry
            .use_range(address, bytes)
            .ok_or(Status::InvalidParams)?;
        if direction == Direction::Write && !used.region().takes_writes(address, bytes) {
            return Err(Status::InvalidWrite);
        }
        let devices = host
            .devices
            .as_ref()
            .filter(|_| used.region().is_on_device());
        let stage = devices.map(|devices| Stage::new(devices, [(address, bytes)]));
        let stage = stage.transpose().map_err(|reason| lost(&reason))?;
        Ok(Self {
            used: Arc::new(used),
            address,
            bytes,
            skipped: 0,
            stage: stage.map(Arc::new),
        })
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        self.used.region()
    }

    /// Before sending: brings staged bytes from the device.
    pub(super) fn load(&self) -> Result<(), Status> {
        let stage = self.stage.as_ref();
        stage.map_or(Ok(()), |stage| stage.load().map_err(|reason| lost(&reason)))
    }

    /// After receiving: brings staged bytes to the device.
    pub(super) fn store(&self) -> Result<(), Status> {
        let store = |stage: &Arc<Stage>| stage.store(stage.host() as u64, self.bytes);
        self.stage
            .as_ref()
            .map_or(Ok(()), |stage| store(stage).map_err(|reason| lost(&reason)))
    }

    /// Appends the bytes to a message, which keeps the right to use them.
    pub(super) fn lend(&self, message: &mut Message) {
        // SAFETY: the range was checked, or is a stage of its length; the message keeps either alive.
        unsafe { message.push_borrowed(self.host(), self.bytes as usize) };
        match &self.stage {
            Some(stage) => message.guard(stage.clone()),
            None => message.guard(self.used.clone()),
        }
    }

    /// As [`Ground::lend`], but only the last `bytes`.
    pub(super) fn lend_last(&self, bytes: u64, message: &mut Message) {
        let part = Self {
            address: self.address + (self.bytes - bytes),
            bytes,
            skipped: self.bytes - bytes,
            ..self.clone()
        };
        part.lend(message);
    }

    /// Puts the first bytes into place. The kernel does it, because a buffer that cannot be written must be an error and
    /// not a fault.
    pub(super) fn place(&self, bytes: &[u8]) -> Result<(), Status> {
        let from = [IoSlice::new(bytes)];
        let into = [RemoteIoVec {
            base: self.host() as usize,
            len: bytes.len().min(self.bytes as usize),
        }];
        match process_vm_writev(Pid::this(), &from, &into) {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) | Err(Errno::EFAULT) => Err(Status::InvalidParams),
            // Forbidden here: a pipe does the same with more steps.
            Err(_) => self.place_by_pipe(bytes),
        }
    }

    fn place_by_pipe(&self, bytes: &[u8]) -> Result<(), Status> {
        let refused = |_| Status::InvalidParams;
        let (mut reader, mut writer) = std::io::pipe().map_err(|error| lost(&error.to_string()))?;
        writer
            .write_all(bytes)
            .map_err(|error| lost(&error.to_string()))?;
        // SAFETY: the range was checked; the kernel refuses what cannot be written.
        let target = unsafe { std::slice::from_raw_parts_mut(self.host(), bytes.len()) };
        reader.read_exact(target).map_err(refused)
    }

    /// CRC-32C of the bytes.
    pub(super) fn checksum(&self) -> u32 {
        // SAFETY: as in `lend`.
        unsafe { crc32c_raw(self.host(), self.bytes as usize) }
    }

    fn host(&self) -> *mut u8 {
        let staged = |stage: &Arc<Stage>| stage.host().wrapping_add(self.skipped as usize);
        self.stage.as_ref().map_or(self.address as *mut u8, staged)
    }
}

fn lost(reason: &str) -> Status {
    tracing::warn!(reason, "Device memory cannot be staged");
    Status::TransferFail
}
