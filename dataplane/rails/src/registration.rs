//! Memory of this process registered with every rail, and the keys that peers get for it.
//!
//! Once [`Registration::revoke`] has returned, no device reads or writes the memory through it,
//! whatever was in flight: a late write of a dead client meets a key that is gone.

use crate::descriptor::RegionDescriptor;
use crate::error::RailError;
use crate::limits::REGION_BORDER_BYTES;
use crate::parts::SplitRange;
use crate::placement::Placement;
use crate::preference::Preference;
use crate::rail::Rail;
use perigee_verbs::registration::{
    RegisteredBuffer, RegistrationOptions, populate, register, register_dmabuf,
};
use perigee_verbs::{DmaBufRange, RegionAccess, VerbsError};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Registered memory. Dropping the last handle revokes it.
#[derive(Debug)]
pub struct Registration {
    epoch: u64,
    parts: SplitRange,
    placement: Placement,
    /// Whether our processors can read the bytes at their address.
    readable: bool,
    /// By rail; `None` for a rail whose device was lost, or does not take such memory.
    buffers: Vec<Option<RegisteredBuffer>>,
    local_keys: Vec<Vec<u32>>,
    revoked: AtomicBool,
}

impl Registration {
    /// Registers with all rails.
    ///
    /// # Safety
    /// The memory stays mapped until the registration is revoked or dropped.
    pub(crate) unsafe fn new(
        rails: &[Arc<Rail>],
        epoch: u64,
        range: (u64, u64),
        access: RegionAccess,
        preference: &Preference,
    ) -> Result<Self, RailError> {
        let (address, bytes) = range;
        let options = options(rails, access);
        populate(address, bytes, access.local_write);
        let one = |rail: &Arc<Rail>| {
            // SAFETY: the caller's promise is that of this function.
            unsafe { register(rail.device().as_ref(), address, bytes, &options) }
        };
        Self::with_each(rails, epoch, (range, preference), one, true)
    }

    /// Registers a part of a dma-buf with every rail whose device takes it.
    ///
    /// # Safety
    /// The memory stays at `part.address` until the registration is revoked or dropped.
    pub(crate) unsafe fn of_dmabuf(
        rails: &[Arc<Rail>],
        epoch: u64,
        (buffer, part): (BorrowedFd<'_>, DmaBufRange),
        access: RegionAccess,
        preference: &Preference,
    ) -> Result<Self, RailError> {
        let range = (part.address, part.bytes);
        let options = options(rails, access);
        let one = |rail: &Arc<Rail>| {
            // SAFETY: the caller's promise is that of this function.
            unsafe { register_dmabuf(rail.device().as_ref(), buffer, part, &options) }
        };
        Self::with_each(rails, epoch, (range, preference), one, false)
    }

    /// Registers with each rail. A rail that is lost, or that does not take such memory, is left
    /// out as long as another one takes it.
    fn with_each(
        rails: &[Arc<Rail>],
        epoch: u64,
        (range, preference): ((u64, u64), &Preference),
        register: impl Fn(&Arc<Rail>) -> Result<RegisteredBuffer, VerbsError>,
        readable: bool,
    ) -> Result<Self, RailError> {
        let (mut buffers, mut left_out) = (Vec::new(), None);
        for rail in rails {
            match register(rail) {
                Ok(buffer) => buffers.push(Some(buffer)),
                Err(error) if is_of_rail(&error) => {
                    tracing::warn!(%error, "Memory is registered without this rail");
                    left_out = Some(error);
                    buffers.push(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        match left_out {
            Some(error) if buffers.iter().all(Option::is_none) => Err(error.into()),
            _ => {
                let placement = preference.placement(rails.iter().map(AsRef::as_ref));
                Self::from_buffers(buffers, epoch, (range, placement), readable)
            }
        }
    }

    fn from_buffers(
        buffers: Vec<Option<RegisteredBuffer>>,
        epoch: u64,
        ((address, bytes), placement): ((u64, u64), Placement),
        readable: bool,
    ) -> Result<Self, RailError> {
        let Some(first) = buffers.iter().flatten().next() else {
            return Err(RailError::NoRail {
                reason: "every device that the topology lists for this memory is lost".to_owned(),
            });
        };
        let starts = first.regions().iter().skip(1);
        let borders = starts.map(|region| region.address()).collect();
        let parts = SplitRange::new(address, bytes, borders)
            .ok_or(RailError::OutOfBounds { address, bytes })?;
        let local_keys = keys(&buffers, |region| region.local_key());
        Ok(Self {
            epoch,
            parts,
            placement,
            readable,
            buffers,
            local_keys,
            revoked: AtomicBool::new(false),
        })
    }

    /// First byte.
    pub fn address(&self) -> u64 {
        self.parts.address()
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.bytes()
    }

    /// Which rails suit it.
    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Whether our processors can read the bytes at their address: not so for memory of another
    /// device.
    pub(crate) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether all of `bytes` at `address` is covered.
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        self.parts.contains(address, bytes)
    }

    /// What a peer needs to read or write this memory, for as long as `lease` says.
    pub fn descriptor(&self, generation: u64, lease: Option<Duration>) -> RegionDescriptor {
        RegionDescriptor {
            epoch: self.epoch,
            generation,
            address: self.address(),
            bytes: self.bytes(),
            lease_ms: lease.map(|lease| lease.as_millis() as u64),
            borders: self.parts.borders().to_vec(),
            remote_keys: keys(&self.buffers, |region| region.remote_key()),
            placement: self.placement.clone(),
        }
    }

    /// Ends the registration now: keys stop working on every rail, here and for peers.
    ///
    /// # Errors
    /// A device did not confirm; all others were asked nevertheless.
    pub fn revoke(&self) -> Result<(), RailError> {
        // First, so that no request begins while devices are still asked.
        self.revoked.store(true, Ordering::Release);
        let results: Vec<_> = self.buffers.iter().flatten().map(RegisteredBuffer::revoke).collect();
        Ok(results.into_iter().collect::<Result<(), VerbsError>>()?)
    }

    /// Whether it was revoked.
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Key of the part that `address` lies in on a rail, and the bytes up to that part's end.
    pub(crate) fn local_key(&self, rail: usize, address: u64) -> Option<u32> {
        let (part, _) = self.parts.find(address);
        self.local_keys.get(rail)?.get(part).copied()
    }

    /// Bytes from `address` to the next border.
    pub(crate) fn room(&self, address: u64) -> u64 {
        self.parts.find(address).1
    }
}

/// Regions that fit every rail, so that their borders are the same everywhere.
fn options(rails: &[Arc<Rail>], access: RegionAccess) -> RegistrationOptions {
    let limits = rails.iter().map(|rail| rail.device().info().limits.region_bytes);
    let limit = limits.min();
    RegistrationOptions {
        access,
        region_bytes: limit.unwrap_or(0),
        page_bytes: REGION_BORDER_BYTES.min(limit.unwrap_or(REGION_BORDER_BYTES)),
        populate: false,
    }
}

/// Whether another rail may take the memory although this one does not.
fn is_of_rail(error: &VerbsError) -> bool {
    matches!(error, VerbsError::DeviceLost { .. } | VerbsError::Unsupported { .. })
}

fn keys(
    buffers: &[Option<RegisteredBuffer>],
    key: impl Fn(&Arc<dyn perigee_verbs::Region>) -> u32,
) -> Vec<Vec<u32>> {
    let of_rail = |buffer: &Option<RegisteredBuffer>| {
        let regions = buffer.iter().flat_map(|buffer| buffer.regions());
        regions.map(&key).collect()
    };
    buffers.iter().map(of_rail).collect()
}
