//! Bounds of what is read. Invariant: no file, folder or document costs more than these, whatever
//! a tree contains.

/// Largest part of one sysfs or procfs file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Entries of one folder that are looked at; further ones are ignored.
pub const FOLDER_ENTRIES_MAX: usize = 4096;

/// Entries of one GID table that are read.
pub const GIDS_PER_PORT_MAX: usize = 256;

/// Empty entries of a GID table in a row after which the rest is taken for empty. The kernel fills
/// the first free entry, so a gap this long needs as many addresses removed at once; each entry
/// costs a dozen system calls.
pub const GIDS_EMPTY_RUN_MAX: usize = 32;

/// Largest JSON document accepted, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Locations in one matrix, and ranks in one map.
pub const DOCUMENT_ENTRIES_MAX: usize = 4096;

/// Longest device or location name, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// Device names in one list.
pub const DEVICES_MAX: usize = 1024;

/// Highest CPU number understood in a CPU list.
pub const CPU_NUMBER_MAX: u32 = 65_535;

/// Characters of a rejected value that a message repeats.
pub(crate) const SHOWN_CHARS_MAX: usize = 80;
