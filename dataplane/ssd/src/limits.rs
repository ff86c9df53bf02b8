//! Bounds of the log: sizes on disk and counts.

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
/// Images of fewer bytes than this are packed at [`SMALL_GRANULE_BYTES`].
pub const LARGE_IMAGE_BYTES: u32 = 64 << 10;
/// Granule of small images.
pub const SMALL_GRANULE_BYTES: u32 = 64;
/// Longest name of a cluster, in bytes.
pub const CLUSTER_BYTES_MAX: usize = 255;
/// Longest names of tenants and groups, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;
