//! Memory that callers name by address: of this host, checked before it is touched, or of an
//! accelerator, for which host memory stands in while its bytes are under way. Invariant: the CPU
//! touches no address of a device.
#![expect(unsafe_code, reason = "it reads and writes memory of callers")]

use crate::api::CallerRange;
use crate::device_stages::{DeviceStageLoan, DeviceStages};
use crate::limits::STAGED_BYTES_MAX;
use perigee_device::GivenDevices;
use perigee_memory::reachable::{KnownMappings, Use, is_mapped};
use perigee_memory::{ByteRange as Source, ByteRangeMut, RegisteredRegions};
use perigee_rdma::Rdma;
use perigee_schemas::Status;
use perigee_transfer::{PeerError, TransferError};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What a client knows of its callers' memory.
#[derive(Debug)]
pub(crate) struct CallerMemory {
    devices: Option<GivenDevices>,
    stages: Arc<DeviceStages>,
    registered: RwLock<CallerRegions>,
}

#[derive(Debug, Default)]
struct CallerRegions {
    regions: RegisteredRegions,
    /// First addresses of those on a device: its driver is asked once.
    on_device: BTreeSet<usize>,
}

impl CallerRegions {
    /// The region that a range lies in, and whether that is on a device.
    fn region(&self, address: usize, bytes: usize) -> Option<(Range<usize>, bool)> {
        let (first, length) = self.regions.covering(address, bytes)?;
        Some((first..first + length, self.on_device.contains(&first)))
    }

    /// In builds with debug assertions panics unless the notes are about registered memory.
    fn debug_check(&self) {
        let is_first = |at: &usize| self.regions.covering(*at, 1).is_some_and(|it| it.0 == *at);
        debug_assert!(
            self.on_device.iter().all(is_first),
            "what is noted is the first byte of a region"
        );
    }
}

/// Pieces that the CPU may touch, in place of the caller's.
#[derive(Debug)]
pub(crate) struct HostPieces {
    pieces: Vec<ByteRangeMut>,
    /// Those of them that stand for a device's: its address, and the host memory.
    staged: Vec<(u64, ByteRangeMut)>,
    /// What they lie in.
    _loan: Option<Arc<DeviceStageLoan>>,
}

/// Host memory for the device memory of one step.
#[derive(Debug)]
pub(crate) struct StepStage {
    loan: Result<Option<Arc<DeviceStageLoan>>, TransferError>,
    used: usize,
}

impl CallerMemory {
    pub(crate) fn new(devices: Option<GivenDevices>, rdma: Option<Arc<Rdma>>) -> Self {
        Self { devices, stages: DeviceStages::new(rdma), registered: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, CallerRegions> {
        self.registered.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, CallerRegions> {
        self.registered.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn driver_holds(&self, address: usize) -> bool {
        let devices = self.devices.as_ref();
        devices.is_some_and(|devices| devices.0.holds(address as u64))
    }

    /// Registers memory; whether it is a device's.
    pub(crate) fn register(&self, address: usize, bytes: usize) -> Result<bool, Status> {
        let on_device = self.driver_holds(address);
        if !on_device && bytes > 0 && !is_mapped(address, bytes, Use::Read) {
            refuse(address, bytes, Use::Read)?;
        }
        let mut registered = self.write();
        if let Err(error) = registered.regions.register(address, bytes) {
            tracing::warn!("{error}");
            return Err(Status::InvalidParams);
        }
        if on_device {
            let is_new = registered.on_device.insert(address);
            debug_assert!(is_new, "a region that was forgotten left nothing behind");
        }
        registered.debug_check();
        Ok(on_device)
    }

    /// Forgets memory; whether it was registered.
    pub(crate) fn unregister(&self, address: usize) -> bool {
        let mut registered = self.write();
        let was_on_device = registered.on_device.remove(&address);
        let was_registered = registered.regions.unregister(address).is_some();
        debug_assert!(was_registered || !was_on_device, "its bytes are a region's");
        registered.debug_check();
        was_registered
    }

    /// Refuses what is no memory for this use, and what would be written behind the end of a
    /// registered buffer, with a line in the log. Registered memory is looked at, too: its owner
    /// may have taken it away since. `known` is of this call.
    pub(crate) fn check(
        &self,
        piece: &CallerRange,
        wanted: Use,
        known: &mut KnownMappings,
    ) -> Result<(), Status> {
        let (address, bytes) = (piece.address, piece.bytes);
        if !piece.is_named || bytes == 0 {
            return Ok(());
        }
        let registered = self.read();
        let region = registered.region(address, bytes);
        let overrun = registered.regions.overrun(address, bytes).filter(|_| region.is_none());
        drop(registered);
        if let Some(end) = overrun.filter(|_| wanted == Use::Write) {
            tracing::warn!(
                "{bytes} bytes at {address:#x} would run past the registered buffer, which ends at {end:#x}: register \
                 all of it, or ask for fewer bytes"
            );
            return Err(Status::InvalidParams);
        }
        let is_there = match region {
            Some((_, true)) => true,
            Some((region, false)) => known.allow_in(region, address, bytes, wanted),
            None => self.driver_holds(address) || known.allow(address, bytes, wanted),
        };
        if is_there { Ok(()) } else { refuse(address, bytes, wanted) }
    }

    /// As [`CallerMemory::check`], for all pieces of an object.
    pub(crate) fn check_all(
        &self,
        pieces: &[CallerRange],
        wanted: Use,
        known: &mut KnownMappings,
    ) -> Result<(), Status> {
        pieces.iter().try_for_each(|piece| self.check(piece, wanted, known))
    }

    /// Copies the bytes of a piece to memory of this process.
    ///
    /// # Safety
    /// `host` must be writable for as many bytes.
    pub(crate) unsafe fn load(&self, piece: &CallerRange, host: *mut u8) -> Result<(), Status> {
        self.check(piece, Use::Read, &mut KnownMappings::default())?;
        let (address, bytes) = (piece.address, piece.bytes);
        let devices = self.devices.as_ref();
        match devices.filter(|_| self.is_on_device(address, bytes)) {
            Some(devices) => {
                // SAFETY: the caller vouches for `host`.
                let loaded = unsafe { devices.0.load(address as u64, host, bytes) };
                loaded.map_err(|reason| failed(&reason).status())
            }
            None => {
                // SAFETY: the range was just checked, and the caller vouches for `host`.
                unsafe { std::ptr::copy(address as *const u8, host, bytes) };
                Ok(())
            }
        }
    }

    /// Copies bytes of this process to the memory of a piece.
    ///
    /// # Safety
    /// `host` must be readable for as many bytes.
    pub(crate) unsafe fn save(&self, piece: &CallerRange, host: *const u8) -> Result<(), Status> {
        self.check(piece, Use::Write, &mut KnownMappings::default())?;
        let (address, bytes) = (piece.address, piece.bytes);
        let devices = self.devices.as_ref();
        match devices.filter(|_| self.is_on_device(address, bytes)) {
            Some(devices) => {
                // SAFETY: the caller vouches for `host`.
                let stored = unsafe { devices.0.store(address as u64, host, bytes) };
                stored.map_err(|reason| failed(&reason).status())
            }
            None => {
                // SAFETY: the range was just checked, and the caller vouches for `host`.
                unsafe { std::ptr::copy(host, address as *mut u8, bytes) };
                Ok(())
            }
        }
    }

    /// The device that has the memory of a piece, as this process numbers them; `None` for memory
    /// of this host.
    pub(crate) fn device_of(&self, piece: &CallerRange) -> Option<u32> {
        let devices = self.devices.as_ref()?;
        let (address, bytes) = (piece.address, piece.bytes);
        let ordinal = || devices.0.ordinal(address as u64).unwrap_or_default();
        self.is_on_device(address, bytes).then(ordinal)
    }

    fn is_on_device(&self, address: usize, bytes: usize) -> bool {
        if self.devices.is_none() {
            return false;
        }
        let region = self.read().region(address, bytes);
        region.map_or_else(|| self.driver_holds(address), |(_, on_device)| on_device)
    }

    /// How many of these objects, from the first on, may have host memory at the same time; all if
    /// no piece is on a device.
    pub(crate) fn staged_together<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a [ByteRangeMut]>,
    ) -> usize {
        let mut staged = 0;
        let mut count = 0;
        for pieces in objects {
            let bytes = self.device_bytes(pieces);
            if count > 0 && staged + bytes > STAGED_BYTES_MAX {
                break;
            }
            staged += bytes;
            count += 1;
        }
        count
    }

    /// Bytes of pieces that host memory must stand in for.
    fn device_bytes(&self, pieces: &[ByteRangeMut]) -> usize {
        let on_device = |piece: &&ByteRangeMut| self.is_on_device(piece.ptr as usize, piece.len);
        match self.devices {
            Some(_) => pieces.iter().filter(on_device).map(|piece| piece.len).sum(),
            None => 0,
        }
    }

    /// Host memory for the objects of one step.
    pub(crate) fn stage<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a [ByteRangeMut]>,
    ) -> StepStage {
        let bytes: usize = objects.into_iter().map(|pieces| self.device_bytes(pieces)).sum();
        let lend = || self.stages.lend(bytes).map(Arc::new).map_err(|reason| failed(&reason));
        let loan = (bytes > 0).then(lend).transpose();
        StepStage { loan, used: 0 }
    }

    /// The pieces of one object of a step as host memory, into which bytes are to go.
    pub(crate) fn targets(
        &self,
        stage: &mut StepStage,
        mut pieces: Vec<ByteRangeMut>,
    ) -> Result<HostPieces, TransferError> {
        let mut staged = Vec::new();
        if self.devices.is_some() {
            for piece in pieces.iter_mut().filter(|piece| piece.len > 0) {
                if self.is_on_device(piece.ptr as usize, piece.len) {
                    let device = piece.ptr as u64;
                    piece.ptr = stage.place(piece.len)?;
                    staged.push((device, *piece));
                }
            }
        }
        let loan = stage.loan.as_ref().ok().filter(|_| !staged.is_empty());
        Ok(HostPieces { pieces, staged, _loan: loan.cloned().flatten() })
    }

    /// The same with their bytes, which are to be sent.
    pub(crate) fn sources(
        &self,
        stage: &mut StepStage,
        pieces: Vec<ByteRangeMut>,
    ) -> Result<HostPieces, TransferError> {
        let host = self.targets(stage, pieces)?;
        for (device, piece) in &host.staged {
            let Some(devices) = &self.devices else { continue };
            // SAFETY: the loan has this part for this piece alone.
            let loaded = unsafe { devices.0.load(*device, piece.ptr, piece.len) };
            loaded.map_err(|reason| failed(&reason))?;
        }
        Ok(host)
    }

    /// Brings what was read where it belongs. `read` has an outcome for each object that has host
    /// pieces.
    pub(crate) fn delivered(
        &self,
        hosts: Vec<Result<HostPieces, TransferError>>,
        read: Vec<Result<(), TransferError>>,
    ) -> Vec<Result<(), TransferError>> {
        debug_assert_eq!(read.len(), hosts.iter().flatten().count());
        let mut read = read.into_iter();
        let lost = || TransferError::Engine("a transfer was lost".to_owned());
        let deliver = |host: Result<HostPieces, TransferError>| {
            let host = host?;
            read.next().unwrap_or_else(|| Err(lost()))?;
            self.deliver(&host)
        };
        hosts.into_iter().map(deliver).collect()
    }

    /// Brings bytes that have arrived, and were found right, to the devices.
    fn deliver(&self, host: &HostPieces) -> Result<(), TransferError> {
        for (device, piece) in &host.staged {
            let Some(devices) = &self.devices else { continue };
            // SAFETY: as in `sources`.
            let stored = unsafe { devices.0.store(*device, piece.ptr, piece.len) };
            stored.map_err(|reason| failed(&reason))?;
        }
        Ok(())
    }
}

impl StepStage {
    /// The next part of it.
    fn place(&mut self, bytes: usize) -> Result<*mut u8, TransferError> {
        let loan = self.loan.as_ref().map_err(TransferError::clone)?;
        let place = loan.as_ref().and_then(|loan| loan.range(self.used, bytes));
        self.used += bytes;
        place.ok_or_else(|| failed("the driver has changed its mind about an address"))
    }
}

impl HostPieces {
    /// Where bytes go.
    pub(crate) fn as_targets(&self) -> &[ByteRangeMut] {
        &self.pieces
    }

    /// Where bytes come from.
    pub(crate) fn as_sources(&self) -> Vec<Source> {
        let source = |piece: &ByteRangeMut| Source { ptr: piece.ptr, len: piece.len };
        self.pieces.iter().map(source).collect()
    }
}

fn refuse(address: usize, bytes: usize, wanted: Use) -> Result<(), Status> {
    let word = match wanted {
        Use::Read => "read",
        Use::Write => "written",
    };
    tracing::warn!("Memory at {address:#x} of {bytes} bytes cannot be {word} by this process");
    Err(Status::InvalidParams)
}

fn failed(reason: &str) -> TransferError {
    tracing::warn!("Device memory was not moved: {reason}");
    TransferError::Peer(PeerError::LocalMemory)
}
