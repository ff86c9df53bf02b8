//! Whole buffers registered with one or many devices: split into regions, pages faulted in first.
//! Invariant: a buffer is registered completely or not at all; on a failure the regions made before
//! are revoked again.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::device::{Device, DmaBufRange};
use crate::error::VerbsError;
use crate::limits::REGION_BYTES_MAX;
use crate::region::{Region, RegionAccess};

mod populate;

pub use populate::populate;

/// How a buffer is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationOptions {
    /// What the regions allow.
    pub access: RegionAccess,
    /// Largest region; the device's own limit holds too. 0 means [`REGION_BYTES_MAX`].
    pub region_bytes: u64,
    /// Size of the pages below: region borders fall on multiples of it. 0 means the host's page
    /// size.
    pub page_bytes: u64,
    /// Fault pages in before registering, with many threads: the kernel does it with one.
    pub populate: bool,
}

impl Default for RegistrationOptions {
    fn default() -> RegistrationOptions {
        RegistrationOptions {
            access: RegionAccess::ALL,
            region_bytes: 0,
            page_bytes: 0,
            populate: true,
        }
    }
}

/// A buffer that one device knows, as one or more regions in the order of their addresses.
#[derive(Debug)]
pub struct RegisteredBuffer {
    address: u64,
    bytes: u64,
    regions: Vec<Arc<dyn Region>>,
}

/// The part of a request that lies in one region.
#[derive(Clone, Copy, Debug)]
pub struct RegionPart<'a> {
    /// The region.
    pub region: &'a Arc<dyn Region>,
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
}

impl RegisteredBuffer {
    /// First byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All regions, by address, without gaps.
    pub fn regions(&self) -> &[Arc<dyn Region>] {
        &self.regions
    }

    /// The regions that `bytes` at `address` cross, or nothing if the range is not all inside.
    pub fn parts(&self, address: u64, bytes: u64) -> Option<impl Iterator<Item = RegionPart<'_>>> {
        let end = address.checked_add(bytes)?;
        if address < self.address || end > self.address + self.bytes {
            return None;
        }
        let first =
            self.regions.partition_point(|region| region.address() + region.bytes() <= address);
        let inside = self.regions[first..].iter().take_while(move |region| region.address() < end);
        Some(inside.map(move |region| {
            let from = address.max(region.address());
            let to = end.min(region.address() + region.bytes());
            RegionPart { region, address: from, bytes: to - from }
        }))
    }

    /// Revokes every region; the first failure is reported after all were tried.
    pub fn revoke(&self) -> Result<(), VerbsError> {
        let results: Vec<_> = self.regions.iter().map(|region| region.revoke()).collect();
        results.into_iter().collect()
    }
}

/// Registers `bytes` at `address` with one device.
///
/// # Safety
/// As for [`Device::register`].
pub unsafe fn register(
    device: &dyn Device,
    address: u64,
    bytes: u64,
    options: &RegistrationOptions,
) -> Result<RegisteredBuffer, VerbsError> {
    check_range(&device.info().name, address, bytes)?;
    if options.populate {
        populate(address, bytes, options.access.local_write);
    }
    let mut regions = Vec::new();
    for (from, length) in parts(device, address, bytes, options) {
        // A failure drops, and so revokes, the regions made so far.
        // SAFETY: the caller's promise is that of this function, for a part of the range.
        regions.push(unsafe { device.register(from, length, options.access) }?);
    }
    Ok(RegisteredBuffer { address, bytes, regions })
}

/// Registers a part of a dma-buf with one device, in regions as [`register`] makes them. Nothing is
/// faulted in: the memory belongs to its exporter.
///
/// # Safety
/// As for [`Device::register_dmabuf`].
pub unsafe fn register_dmabuf(
    device: &dyn Device,
    buffer: BorrowedFd<'_>,
    range: DmaBufRange,
    options: &RegistrationOptions,
) -> Result<RegisteredBuffer, VerbsError> {
    let (address, bytes) = (range.address, range.bytes);
    check_range(&device.info().name, address, bytes)?;
    let mut regions = Vec::new();
    for (from, length) in parts(device, address, bytes, options) {
        let part = DmaBufRange {
            offset_bytes: range.offset_bytes + (from - address),
            bytes: length,
            address: from,
        };
        // SAFETY: the caller's promise is that of this function, for a part of the range.
        regions.push(unsafe { device.register_dmabuf(buffer, part, options.access) }?);
    }
    Ok(RegisteredBuffer { address, bytes, regions })
}

/// The regions of a range: no larger than the caller and the device allow.
fn parts(
    device: &dyn Device,
    address: u64,
    bytes: u64,
    options: &RegistrationOptions,
) -> impl Iterator<Item = (u64, u64)> + use<> {
    let most = match options.region_bytes {
        0 => REGION_BYTES_MAX,
        bytes => bytes,
    };
    let page_bytes = match options.page_bytes {
        0 => populate::page_bytes(),
        bytes => bytes,
    };
    let most = most.min(device.info().limits.region_bytes);
    split(address, bytes, most, page_bytes)
}

fn check_range(device: &str, address: u64, bytes: u64) -> Result<(), VerbsError> {
    if bytes > 0 && address > 0 && address.checked_add(bytes).is_some() {
        return Ok(());
    }
    Err(VerbsError::BadRange { device: device.to_owned(), address, bytes })
}

/// Cuts a range into parts of at most `most` bytes whose inner borders are page borders. A limit
/// below one page is taken as one page.
fn split(address: u64, bytes: u64, most: u64, page_bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let page_bytes = page_bytes.max(1);
    let step = (most / page_bytes).max(1).saturating_mul(page_bytes);
    let end = address + bytes;
    let mut from = address;
    std::iter::from_fn(move || {
        if from >= end {
            return None;
        }
        let first_page = from - from % page_bytes;
        let to = first_page.checked_add(step).map_or(end, |to| to.min(end));
        let part = (from, to - from);
        from = to;
        Some(part)
    })
}

#[cfg(test)]
mod tests;
