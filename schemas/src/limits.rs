//! Every bound of the wire formats, in one place.

/// Oldest protocol version this build can speak.
pub const PROTOCOL_MIN: u16 = 2;
/// Newest protocol version this build can speak.
pub const PROTOCOL_MAX: u16 = 5;
/// The version from which on peers tell tenants apart. An older one would take a call about all
/// keys of a tenant for one about all keys.
pub const TENANTS_PROTOCOL: u16 = 4;
/// First version in which a segment may be a disk; an older master would take one for memory.
pub const PROTOCOL_WITH_DISKS: u16 = 5;

/// Largest frame body in bytes; a longer announcement closes the connection before anything is
/// allocated.
pub const FRAME_BODY_BYTES_MAX: usize = 32 << 20;
/// Largest body of the first frame of a connection, in bytes.
pub const HELLO_BODY_BYTES_MAX: usize = 4096;

/// Most keys in one batch.
pub const BATCH_KEYS_MAX: usize = 65_536;
/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 8192;
/// Longest name of a tenant in bytes.
pub const TENANT_BYTES_MAX: usize = 64;
/// Longest key in bytes with its tenant in front, as messages and records carry it.
pub const STORED_KEY_BYTES_MAX: usize = KEY_BYTES_MAX + TENANT_BYTES_MAX + 2;
/// Bytes of all keys of a batch that may be more than the batch has itself, because several entries
/// name one key.
pub const BATCH_SHARED_KEY_BYTES_MAX: usize = 4 << 20;
/// Bytes of keys after which a page of a listing ends.
pub const LISTING_PAGE_BYTES: usize = 256 << 10;
/// Segments that one page of a listing looks at.
pub const SEGMENTS_PER_PAGE: usize = 256;
/// Most tenants in the answer to a question for all of them.
pub const TENANTS_LISTED_MAX: usize = 4096;
/// Most replicas of one object.
pub const REPLICAS_MAX: usize = 16;
/// Most parts of an object that is larger than any segment.
pub const PARTS_MAX: u8 = 64;
/// Most segments in one mount or query.
pub const SEGMENTS_MAX: usize = 4096;
/// Longest name, endpoint, host identity, socket name or protocol of a segment, in bytes.
pub const SEGMENT_TEXT_BYTES_MAX: usize = 256;
/// Largest segment in bytes; the sum over [`SEGMENTS_MAX`] of them cannot wrap.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 46;
/// Longest regular expression in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Most pieces in one slice request.
pub const SLICE_PIECES_MAX: usize = 1000;
/// Most payload bytes that one slice request may carry.
pub const SLICE_PAYLOAD_BYTES_MAX: u64 = 64 << 20;
/// Largest segment of the log of a disk in bytes.
pub const DISK_SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Largest payload of one object in bytes.
pub const OBJECT_BYTES_MAX: u64 = 1 << 40;

/// Bound on tables in one verified message; a batch of keys needs none per key.
pub const VERIFIER_TABLES_MAX: usize = 3 * SEGMENTS_MAX;

const _: () = assert!(PROTOCOL_MIN <= PROTOCOL_MAX && TENANTS_PROTOCOL <= PROTOCOL_MAX);
const _: () = assert!(HELLO_BODY_BYTES_MAX < FRAME_BODY_BYTES_MAX);
const _: () = assert!(SEGMENT_BYTES_MAX.checked_mul(SEGMENTS_MAX as u64).is_some());
