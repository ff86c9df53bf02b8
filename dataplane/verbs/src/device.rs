//! A fabric and its devices, as every implementation offers them.
//! Invariant: whatever comes from a device (queue, queue pair, region) keeps the device open for as
//! long as it lives, so that handles may be dropped in any order.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::error::VerbsError;
use crate::gid::Gid;
use crate::queue::CompletionQueue;
use crate::region::{Access, Region};

/// All devices that a process can reach: the host's real ones, or those of a software fabric.
pub trait Fabric: Send + Sync + fmt::Debug {
    /// Every device with its facts, in the order of their names. No device at all is an empty list,
    /// not an error. A device that cannot be opened is left out, and [`Fabric::open`] says why; when
    /// that is so for every device, this does.
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
    fn gids(&self) -> Result<Vec<Gid>, VerbsError>;

    /// Registers `bytes` at `address` with the device. Longer than `limits.region_bytes` is refused:
    /// see [`crate::registration`] for whole buffers.
    ///
    /// # Safety
    /// The memory must stay mapped until the region is revoked or dropped, and it is written by
    /// peers while the region lives: nobody may hold a reference to bytes that a peer may write.
    unsafe fn register(
        &self,
        address: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Arc<dyn Region>, VerbsError>;

    /// Registers memory of another device (a GPU) given as a dma-buf.
    ///
    /// # Safety
    /// As for [`Device::register`]; `range.address` must be the address that the memory has for
    /// whoever uses the region's keys.
    unsafe fn register_dmabuf(
        &self,
        buffer: BorrowedFd<'_>,
        range: DmaBufRange,
        access: Access,
    ) -> Result<Arc<dyn Region>, VerbsError>;

    /// Whether library and driver take dma-bufs, found out by asking; a given one may still be refused.
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

/// What a device is and can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name as the kernel gives it: `mlx5_0`, `rxe1`.
    pub name: String,
    /// The port in use, from 1.
    pub port: u8,
    /// Ports the device has.
    pub ports: u8,
    /// Whether the port was active.
    pub active: bool,
    /// What runs below the transport.
    pub link_layer: LinkLayer,
    /// Speed of the link in bits per second; 0 when the device does not tell.
    pub link_bits_per_second: u64,
    /// Largest payload of one packet, in bytes.
    pub mtu_bytes: u32,
    /// Local identifier on InfiniBand; 0 on Ethernet.
    pub lid: u16,
    /// Entries of the GID table.
    pub gid_entries: u32,
    /// Globally unique number of the device, 0 when it has none.
    pub guid: u64,
    /// Bounds.
    pub limits: DeviceLimits,
}

/// What a device allows at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Work requests waiting on one queue pair.
    pub send_entries: u32,
    /// Pieces of one work request, never above [`crate::limits::PIECES_MAX`].
    pub pieces: u32,
    /// Completions in one queue.
    pub completion_entries: u32,
    /// Regions.
    pub regions: u32,
    /// Bytes of one region.
    pub region_bytes: u64,
    /// Bytes of one read or write.
    pub message_bytes: u64,
    /// Bytes of inline data on one queue pair, found out by asking; a queue pair may get less.
    pub inline_bytes: u32,
    /// Reads outstanding on one queue pair.
    pub reads_outstanding: u8,
}

/// The layer below the RDMA transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// Native InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
    /// Not told.
    Unknown,
}

/// Something that happened to a device, unasked.
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
    /// An event nobody here acts on: `ibv_event_type`.
    Other(u32),
}
