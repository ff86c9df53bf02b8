//! Bounds of a page.

use std::time::Duration;

/// Slots in a page: NIC x route x direction x writer. What does not fit is counted in the last
/// slot.
pub(crate) const SLOTS: usize = 1024;
/// Latency buckets of a slot; bucket `n` counts values of `[2^n, 2^(n+1))` ns, the last one
/// everything above.
pub const LATENCY_BUCKETS: usize = 40;
/// The part of them that is counted finer, from 1 us to 17 s: powers from this one on...
pub const QUARTERED_POWER: usize = 10;
/// ... so many, each in four buckets of the same width.
pub const QUARTERED_POWERS: usize = 24;
/// Longest device name in bytes.
pub(crate) const DEVICE_BYTES: usize = 24;
/// Disks in a page; those that find no place are not shown.
pub(crate) const DISKS: usize = 32;
/// Longest path of a disk, reason and name of a state, in bytes.
pub(crate) const DISK_PATH_BYTES: usize = 128;
pub(crate) const DISK_REASON_BYTES: usize = 240;
pub(crate) const DISK_STATE_BYTES: usize = 16;
/// Connections in a page; those that find no place are not shown.
pub(crate) const LINKS: usize = 512;
/// Longest address of a peer as text, in bytes, rounded up.
pub(crate) const PEER_BYTES: usize = 40;
/// Threads of a process whose batches are shown one by one.
pub(crate) const RINGS: usize = 32;
/// Batches of each kind, latest and slow, that a ring holds.
pub(crate) const MARKS: usize = 32;
/// A batch that takes this long is slow: it stays in sight longer than the others.
pub const SLOW_MARK_NS: u64 = 1_000_000;

/// Classes of slow batches by how slow they were: each begins at four times the one before, the
/// first at [`SLOW_MARK_NS`].
pub const SLOW_CLASSES: usize = 6;

/// What a process counts as a whole.
pub(crate) const PROCESS_COUNTERS: usize = 3;

/// Milliseconds in which a reader may not have come by: agents do each second.
pub(crate) const FRESH_MARK_MS: u64 = 1_100;
/// Spans that a page holds: those of a hundred requests and more between two readings.
pub(crate) const SPANS: usize = 512;
/// What takes so many times the median of its kind and size is slow.
pub(crate) const SLOW_TIMES: u64 = 4;
/// Slow requests of a kind that are kept in a second, beside the slowest of it.
pub(crate) const SLOW_KEPT_PER_SECOND: u32 = 16;
/// How often a connection's socket is asked at most, in milliseconds.
pub(crate) const LOOK_INTERVAL_MS: u64 = 1000;
/// Slots that one thread keeps for itself.
pub(crate) const SLOTS_PER_THREAD: usize = 16;
/// Pages of living processes that a reader looks at on one host.
pub(crate) const PAGES_MAX: usize = 4096;
/// Files that a reader looks at to find them: pages of processes that ended may lie between them.
pub(crate) const FILES_MAX: usize = 65_536;
/// Files that a process which makes a page looks at to remove what earlier ones of its user left.
pub(crate) const FILES_SWEPT: usize = 4096;
/// Addresses whose NIC is remembered.
pub(crate) const ADDRESSES_MAX: usize = 1024;
/// A process that ends leaves its page, and so its last counts, if a reader was in the folder this
/// long ago at most: longer than an agent needs to start again.
pub(crate) const READER_NEAR: Duration = Duration::from_secs(60);
/// Pages of ended processes that a new one of the same user leaves for a reader: 125 MB.
pub(crate) const ENDED_PAGES_MAX: usize = 64;
