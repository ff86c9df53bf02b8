//! What a device can do. Invariant: limits are those that the device itself states.

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
    /// Queue pairs of the device.
    pub queue_pairs: u32,
    /// Work requests waiting on one queue pair.
    pub send_entries: u32,
    /// Pieces of one work request, never above [`crate::limits::PIECES_MAX`].
    pub pieces: u32,
    /// Completions in one queue.
    pub completion_entries: u32,
    /// Memory regions of the device.
    pub regions: u32,
    /// Bytes of one region.
    pub region_bytes: u64,
    /// Bytes of one read or write.
    pub message_bytes: u64,
    /// Bytes of inline data on one queue pair, found out by asking; a queue pair may get less.
    pub inline_bytes: u32,
    /// Reads outstanding on one queue pair.
    pub reads_outstanding: u8,
    /// Entries of the port's partition key table.
    pub partitions: u16,
}

/// The layer below the RDMA transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// Native InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
    /// Unknown.
    Unknown,
}
