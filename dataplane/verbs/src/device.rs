//! A fabric and its devices, as every implementation offers them.
//! Invariant: whatever comes from a device (queue, queue pair, region) keeps the device open for as
//! long as it lives, so that handles may be dropped in any order.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::device_info::DeviceInfo;
use crate::error::VerbsError;
use crate::gid::PortGid;
use crate::queue::CompletionQueue;
use crate::region::{Region, RegionAccess};

/// All devices that a process can reach: the host's real ones, or those of a software fabric.
pub trait Fabric: Send + Sync + fmt::Debug {
    /// Every device with its facts, in the order of their names. No device at all is an empty list,
    /// not an error. A device that cannot be opened is left out, and [`Fabric::open`] says why;
    /// when that is so for every device, this does.
    fn devices(&self) -> Result<Vec<DeviceInfo>, VerbsError>;

    /// Opens `mlx5_0`, or port 2 of it with `mlx5_0:2`. Without a port the first active one is
    /// taken, or port 1 if none is.
    fn open(&self, name: &str) -> Result<Arc<dyn Device>, VerbsError>;
}

/// One open port of one device, with a protection domain of its own: keys of regions that were
/// registered through another opening do not work on its queue pairs.
pub trait Device: Send + Sync + fmt::Debug {
    /// The facts as of opening.
    fn info(&self) -> &DeviceInfo;

    /// Whether the port carries traffic now.
    fn port_active(&self) -> Result<bool, VerbsError>;

    /// The GID table as it is now, empty entries left out.
    fn gids(&self) -> Result<Vec<PortGid>, VerbsError>;

    /// Registers `bytes` at `address` with the device. Longer than `limits.region_bytes` is
    /// refused: see [`crate::registration`] for whole buffers.
    ///
    /// # Safety
    /// The memory must stay mapped until the region is revoked or dropped, and it is written by
    /// peers while the region lives: no reference may exist to bytes that a peer may write.
    unsafe fn register(
        &self,
        address: u64,
        bytes: u64,
        access: RegionAccess,
    ) -> Result<Arc<dyn Region>, VerbsError>;

    /// Registers memory of another device (a GPU) given as a dma-buf.
    ///
    /// # Safety
    /// As for [`Device::register`]; `range.address` must be the address that users of the region's
    /// keys name.
    unsafe fn register_dmabuf(
        &self,
        buffer: BorrowedFd<'_>,
        range: DmaBufRange,
        access: RegionAccess,
    ) -> Result<Arc<dyn Region>, VerbsError>;

    /// Whether library and driver take dma-bufs, found out by asking; a given one may still be
    /// refused.
    fn knows_dmabuf(&self) -> bool;

    /// A queue that holds up to `entries` completions. Queue pairs are made through it.
    fn completion_queue(&self, entries: u32) -> Result<Arc<dyn CompletionQueue>, VerbsError>;

    /// Readable when [`Device::take_event`] has something.
    fn event_fd(&self) -> BorrowedFd<'_>;

    /// The next event, without waiting.
    fn take_event(&self) -> Result<Option<DeviceEvent>, VerbsError>;
}

/// The part of a dma-buf that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaBufRange {
    /// Where the part begins in the buffer, in bytes.
    pub offset_bytes: u64,
    /// Its length.
    pub bytes: u64,
    /// The address by which work requests name its first byte.
    pub address: u64,
}

/// An asynchronous event of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// The port carries no traffic any more.
    PortDown {
        /// From 1.
        port: u8,
    },
    /// The port carries traffic.
    PortUp {
        /// From 1.
        port: u8,
    },
    /// The addresses changed: GIDs were added or removed, or the local identifier is another.
    GidChange {
        /// From 1.
        port: u8,
    },
    /// The device is lost; everything on it must be dropped.
    DeviceFatal,
    /// A queue pair failed for a reason that no completion reports.
    QueuePairFatal {
        /// Its number.
        queue_pair: u32,
    },
    /// An event that needs no action here: `ibv_event_type`.
    Other(u32),
}
