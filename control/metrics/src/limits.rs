//! Bounds of the exporter. Invariant: the size of one scrape is bounded by these, not by input.

/// Most label sets of one family that a scrape shows; further ones are left out.
pub const LABEL_SETS_MAX: usize = 4096;

/// Bytes after which a piece of a scrape ends. A scrape of a usual cluster is one piece.
pub const PIECE_BYTES: usize = 256 << 10;

/// Longest label value in bytes; longer ones are cut.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;
