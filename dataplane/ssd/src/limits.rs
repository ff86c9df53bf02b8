//! Bounds of the log and of its I/O: sizes, counts, waits.

use perigee_schemas::limits::SLICE_PAYLOAD_BYTES_MAX;
use std::time::Duration;

/// What is written to a disk starts and ends at multiples of this many bytes.
pub const BLOCK_BYTES: u32 = 4096;
/// Smallest segment.
pub const SEGMENT_BYTES_MIN: u32 = 16 << 20;
/// Largest segment.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;
/// Segments of a disk, at most: 256 TiB of the usual ones.
pub const SEGMENTS_MAX: u32 = 1 << 20;
/// Bytes of the entries of one batch, at most.
pub const BATCH_ENTRY_BYTES_MAX: u32 = 1 << 20;
/// Bytes of the entries of one segment, at most: a footer is read in one piece.
pub const SEGMENT_ENTRY_BYTES_MAX: usize = 32 << 20;
/// Images of fewer bytes than this are packed at [`SMALL_GRANULE_BYTES`].
pub const LARGE_IMAGE_BYTES: u32 = 64 << 10;
/// Granule of small images.
pub const SMALL_GRANULE_BYTES: u32 = 64;
/// Longest name of a cluster, in bytes.
pub const CLUSTER_BYTES_MAX: usize = 255;
/// Longest name of a tenant, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;
/// Memory in which bytes of one disk wait, reads and writes together.
pub const STAGE_BYTES_MAX: usize = 128 << 20;
/// Bytes of it that are registered with the reactor at once, when they are first used.
pub(crate) const REGISTERED_BYTES: usize = 16 << 20;
/// Limit of locked memory below which none of it is registered: there are other disks, and rails,
/// and what starts later must not fail.
pub(crate) const LOCKED_BYTES_WANTED: u64 = 1 << 30;
/// Part of that memory that a read leaves to writes.
pub(crate) const STAGE_LEFT_BYTES: usize = 8 << 20;
/// Part of that memory that peers hold at most while they read it by themselves: beside it there is
/// room for the largest call of a peer, and for what is left to writes.
pub(crate) const STAGE_HELD_BYTES_MAX: usize = 48 << 20;
/// Bytes of objects that wait to be written, at most.
pub const QUEUED_BYTES_MAX: u64 = 64 << 20;
/// A batch is written at once when it has so many bytes.
pub(crate) const BATCH_BYTES_READY: u64 = 1 << 20;
/// The same while fewer bytes than [`WRITES_WANTED`] are on their way: a disk that waits for more
/// rests.
pub(crate) const BATCH_BYTES_IDLE: u64 = 256 << 10;
/// Bytes under way that keep a disk busy.
pub(crate) const WRITES_WANTED: u64 = 2 << 20;
/// While so many are on their way no batch begins: they would only wait in memory of ours.
pub(crate) const WRITES_MAX: u64 = 2 * WRITES_WANTED;
/// Bytes of the images of a batch, at most, unless it is a single one.
pub(crate) const BATCH_BYTES_MAX: u64 = 8 << 20;
/// Bytes of the entries of a batch, at most, unless it is a single one.
pub(crate) const BATCH_ENTRIES_BYTES: usize = 256 << 10;
/// Tombstones of a batch, at most.
pub(crate) const BATCH_TOMBSTONES_MAX: usize = 4096;
/// How long a smaller batch waits for more objects.
pub(crate) const BATCH_WAIT: Duration = Duration::from_millis(5);
/// How long tombstones wait for a batch, and then for a sync.
pub(crate) const TOMBSTONE_WAIT: Duration = Duration::from_millis(100);
/// Bytes of one write of a structure of the log's own, whole blocks.
pub(crate) const OWN_WRITE_BYTES: usize = 1 << 20;
/// Bytes of one write, and how many are under way, while nothing is read.
pub(crate) const WRITE_ALONE: (u32, usize) = (256 << 10, 8);
/// The same beside reads: a disk serves in order, so what is written must not be in their way.
pub(crate) const WRITE_BESIDE_READS: (u32, usize) = (128 << 10, 2);
/// For how long after a read writes stay behind.
pub(crate) const READS_LINGER: Duration = Duration::from_millis(50);
/// Bytes of one read: those of an object of 1 MiB with its sums and its generation.
pub(crate) const READ_BYTES_MAX: u32 = (1 << 20) + (64 << 10);
/// Bytes between two pieces that are read with them.
pub(crate) const READ_GAP_BYTES: u32 = 16 << 10;
/// Reads under way on one disk, and their bytes.
pub(crate) const READS_IN_FLIGHT: (usize, u64) = (64, 32 << 20);
/// Longest that a read takes before its caller goes elsewhere.
pub const READ_DEADLINE: Duration = Duration::from_secs(5);
/// Bytes of reads that have ended and are kept for promotions, at most...
pub(crate) const KEPT_READ_BYTES_MAX: u64 = 32 << 20;
/// ... their number...
pub(crate) const KEPT_READS_MAX: usize = 1024;
/// ... and for how long.
pub(crate) const KEPT_READS_TIME: Duration = Duration::from_secs(1);
/// Reads under way that are looked at for one that another call can join.
pub(crate) const SHARED_LOOKS: usize = 16;
/// How often memory for a read is asked for again.
pub(crate) const STAGE_LOOK: Duration = Duration::from_millis(1);
/// Longest wait for the reads of a segment that is to be used again.
pub(crate) const RECYCLE_WAIT: Duration = Duration::from_secs(20);
/// Objects of one page of a listing.
pub const LIST_PAGE_OBJECTS: usize = 8192;
/// How long a listing is kept for its next page.
pub(crate) const LIST_IDLE: Duration = Duration::from_secs(60);
/// Segments that are scanned at the same time.
pub(crate) const SCANS_AT_ONCE: usize = 16;
/// How often operations under way are looked at.
pub(crate) const STALL_LOOK: Duration = Duration::from_millis(500);
/// An operation that takes longer makes its disk slow.
pub(crate) const STALL_SHOWN: Duration = Duration::from_secs(1);
/// While one takes longer than this nothing new is written.
pub(crate) const STALL_REFUSES_WRITES: Duration = Duration::from_secs(5);
/// While a read takes longer than this no other is tried.
pub(crate) const STALL_REFUSES_READS: Duration = Duration::from_secs(2);
/// Writes that fail one after the other before a disk counts as one for reading.
pub(crate) const WRITE_ERRORS_MAX: u32 = 3;
/// When a disk that takes no writes is tried again.
pub(crate) const WRITE_RETRY: Duration = Duration::from_secs(30);
/// Reads that fail...
pub(crate) const READ_ERRORS_MAX: usize = 3;
/// ... within this time before a disk is not used any more.
pub(crate) const READ_ERRORS_WITHIN: Duration = Duration::from_secs(60);
/// How often it is said at most that blocks do not verify.
pub(crate) const FORGED_PAUSE: Duration = Duration::from_secs(60);
/// Pause between two lines about copies that are damaged.
pub(crate) const DAMAGE_PAUSE: Duration = Duration::from_secs(10);
/// Bytes of a segment, where the capacity allows.
pub(crate) const SEGMENT_BYTES_USUAL: u32 = 256 << 20;
/// Segments that a small disk is divided into.
pub(crate) const SEGMENTS_WANTED: u64 = 8;
/// Fewer segments are no log: while one is written, another one can be read.
pub(crate) const SEGMENTS_MIN: u64 = 2;
/// Bytes of the smallest disk. A master refuses a shared directory that may have less.
pub const DISK_BYTES_MIN: u64 = SEGMENTS_MIN * SEGMENT_BYTES_MIN as u64;
/// Times that a folder is looked for while other processes take those that were found.
pub(crate) const FOLDER_TRIES: usize = 8;
/// Folders of a path that one look for free ones tries, at most.
pub(crate) const FOLDERS_SURVEYED_MAX: usize = 256;
/// Memory for what such a look reads.
pub(crate) const SURVEY_BYTES: usize = 64 << 10;
/// Parts of a bound for all folders of a path, of which a disk without a limit of its own has one.
pub(crate) const ROOM_SHARES: u64 = 8;
/// Looks at whether another process still adds to what folders of a path may use...
pub(crate) const ROOM_TRIES: usize = 100;
/// ... and the pause between two of them.
pub(crate) const ROOM_PAUSE: Duration = Duration::from_millis(50);

const _: () = assert!(
    STAGE_HELD_BYTES_MAX + STAGE_LEFT_BYTES + SLICE_PAYLOAD_BYTES_MAX as usize <= STAGE_BYTES_MAX
);
