//! The sizes and bounds of this crate.
//! Invariant: whatever a peer sends is compared with a number from here before memory is taken for it.

use std::num::NonZeroUsize;

/// Bytes of one checksum block of an object.
pub const BLOCK_BYTES: NonZeroUsize = match NonZeroUsize::new(64 << 10) {
    Some(bytes) => bytes,
    None => NonZeroUsize::MIN,
};

/// Copies shorter than this use ordinary stores: the reader will likely find them in the cache. From
/// here on streaming stores are faster for cold destinations (`examples/copy_rates.rs`).
pub const STREAM_MIN_BYTES: usize = 4 << 10;

/// Segments that travel in one rendezvous message. The kernel allows 253 descriptors.
pub const RENDEZVOUS_SEGMENTS_MAX: usize = 128;

/// Largest segment, own or announced by a peer: 256 TiB, all that a 48-bit address can name.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 48;

/// Longest name in the abstract socket namespace: `sun_path` less its leading zero.
pub const ABSTRACT_NAME_BYTES_MAX: usize = 107;

/// Part of a mapped segment whose page tables are filled at once when it is first touched.
pub const TOUCH_BYTES: usize = 2 << 20;

/// Step of the background prefault: bounds how long dropping a segment waits for it.
pub const PREFAULT_STEP_BYTES: usize = 2 << 20;

/// Pause between two attempts to connect to a listener whose backlog is full.
pub const CONNECT_RETRY_MS: u64 = 2;

/// Buffers that one client may have registered at the same time.
pub const REGIONS_MAX: usize = 1 << 20;

/// Processes of this host that may hold mappings of one process's segments at the same time; more are sent away.
pub const RENDEZVOUS_GUESTS_MAX: usize = 1024;

/// Pause after the kernel refused to accept a connection, for example for want of descriptors.
pub const ACCEPT_PAUSE_MS: u64 = 50;
