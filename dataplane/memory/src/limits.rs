//! The sizes and bounds of this crate.
//! Invariant: whatever a peer sends is compared with a number from here before memory is taken for
//! it.

use std::num::NonZeroUsize;
use std::time::Duration;

/// Bytes of one checksum block of an object.
pub const BLOCK_BYTES: NonZeroUsize = match NonZeroUsize::new(64 << 10) {
    Some(bytes) => bytes,
    None => NonZeroUsize::MIN,
};

/// Copies shorter than this use ordinary stores: the reader will likely find them in the cache.
/// From here on streaming stores are faster for cold destinations (`perigee bench machine --what
/// copies,kernels`).
pub const STREAM_MIN_BYTES: usize = 4 << 10;

/// Segments that travel in one rendezvous message. The kernel allows 253 descriptors.
pub const RENDEZVOUS_SEGMENTS_MAX: usize = 128;
/// Segments that one guest is handed; one more place of the message is the revocation page's.
pub const SHARED_SEGMENTS_MAX: usize = RENDEZVOUS_SEGMENTS_MAX - 1;
/// Longest wait for an owner on this host to hand out its segments, or for a guest to take them.
pub const HANDOVER_DEADLINE: Duration = Duration::from_millis(500);
/// How long an owner that did not hand out its segments is not asked again.
pub const OWNER_RETRY: Duration = Duration::from_secs(5);
/// How often owners are looked at while their memory is used.
pub const OWNER_CHECK: Duration = Duration::from_millis(50);
/// Reads at a time of what an owner says; it says a byte for each segment that it adds.
pub const NEWS_READS_MAX: usize = 64;
/// How often an owner that takes its segments back looks whether the last copy has ended.
pub const COPY_LOOK: Duration = Duration::from_millis(1);

/// Largest segment, own or announced by a peer: 256 TiB, all that a 48-bit address can name.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 48;

/// Longest name in the abstract socket namespace: `sun_path` less its leading zero.
pub const ABSTRACT_NAME_BYTES_MAX: usize = 107;

/// Part of a segment that is populated by its owner, and mapped by its peers, at once.
pub const PART_BYTES: usize = 2 << 20;

/// How far the pages of a segment are made ahead of what was asked for last: what a peer writes in
/// some 10 ms.
pub const AHEAD_BYTES: usize = 64 << 20;
/// A large segment goes ahead by this part of what is populated.
pub const AHEAD_PART: usize = 8;

/// Requests that wait for the thread which makes pages ahead; further ones are left to the next.
pub const POPULATE_REQUESTS: usize = 64;

/// Bytes that are populated between two looks at what the container has left,
pub const CREDIT_BYTES: u64 = 128 << 20;
/// and the longest time between two.
pub const CREDIT_MS: u64 = 100;
/// Shortest time between two looks while nothing is left.
pub const REFUSAL_MS: u64 = 5;

/// Memory that is left to pages that are made ahead where there is not enough for a segment.
pub const AHEAD_SPARE_BYTES: u64 = 8 << 20;
/// Steps in which it is said how much of a segment has no pages: what is left changes all the time.
pub const UNBACKED_STEP_BYTES: u64 = 4 << 20;
/// Most ranges without pages that are named of one segment.
pub const UNBACKED_RANGES_MAX: usize = 64;

/// Memory that segments leave to the rest of the container or the host: a 32nd of its limit, within
/// these bounds.
pub const RESERVE_PART: u64 = 32;
/// Buffers of connections and what a Python process takes beside.
pub const RESERVE_BYTES_MIN: u64 = 32 << 20;
/// What any program takes beside its segments.
pub const RESERVE_BYTES_MAX: u64 = 1 << 30;

/// A segment that is cut to what is there is at least this long.
pub const SEGMENT_CUT_BYTES_MIN: u64 = PART_BYTES as u64;

/// Pause between two attempts to connect to a listener whose backlog is full.
pub const CONNECT_RETRY_MS: u64 = 2;

/// Longest range whose pages are probed one by one where the kernel can be asked for its mappings.
pub const PROBED_BYTES_MAX: usize = 64 << 10;

/// Buffers that one client may have registered at the same time.
pub const REGIONS_MAX: usize = 1 << 20;

/// Processes of this host that may hold mappings of one process's segments at the same time; more
/// are sent away.
pub const GUESTS_MAX: usize = 1024;

/// Pause after the kernel refused to accept a connection, for example for want of descriptors.
pub const ACCEPT_PAUSE_MS: u64 = 50;

/// Bytes before the regions of a journal: a page, so that regions can be given back whole.
pub const JOURNAL_HEADER_BYTES: usize = 4096;
/// Longest region of a journal.
pub const JOURNAL_BYTES_MAX: usize = 64 << 30;
/// A journal of fewer bytes is not compacted before it is full.
pub const JOURNAL_COMPACT_BYTES_MIN: usize = 64 << 10;
/// Part of a journal that takes no commits, 1 divided by this: what goes can always be said.
pub const JOURNAL_SLACK_PART: usize = 8;
/// Memory of a journal that is made sure of at once.
pub const JOURNAL_STEP_BYTES: usize = 256 << 10;

// What the numbers above rely on of each other.
const _: () = assert!(PART_BYTES.is_power_of_two() && PART_BYTES >= 4096);
const _: () = assert!(AHEAD_BYTES.is_multiple_of(PART_BYTES));
const _: () = assert!(CREDIT_BYTES >= PART_BYTES as u64 && REFUSAL_MS < CREDIT_MS);
const _: () = assert!(RESERVE_BYTES_MIN <= RESERVE_BYTES_MAX);
const _: () = assert!(RENDEZVOUS_SEGMENTS_MAX <= 253);
