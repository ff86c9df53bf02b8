//! The sizes and bounds of this crate.
//! Invariant: every queue, table and retry of this crate is bounded by a number from here.

/// Largest retry count that means itself on every device: Soft-RoCE takes 7 as "forever".
pub const RETRIES_MAX: u8 = 6;

/// Largest exponent of the acknowledgement timeout: the field has five bits.
pub const TIMEOUT_EXPONENT_MAX: u8 = 31;

/// Default exponent: 4.096 us times 2^14 = 67 ms per attempt.
pub const TIMEOUT_EXPONENT_DEFAULT: u8 = 14;

/// Largest packet payload of InfiniBand and RoCE, in bytes.
pub const MTU_BYTES_MAX: u32 = 4096;

/// Packet sequence numbers and queue pair numbers have 24 bits.
pub const SEQUENCE_MASK: u32 = 0x00ff_ffff;

/// Pieces one work request may gather or scatter. Devices allow 16 to 32, the least common is
/// taken.
pub const PIECES_MAX: usize = 16;

/// Work requests handed to a device in one call; longer chains are posted in parts of this size.
pub const CHAIN_MAX: usize = 64;

/// Completions taken from a device in one call.
pub const POLL_MAX: usize = 64;

/// Default entries of a send queue.
pub const SEND_ENTRIES_DEFAULT: u32 = 256;

/// Default number of reads that may be outstanding on one queue pair; devices allow less or more.
pub const READS_OUTSTANDING_DEFAULT: u8 = 16;

/// Entries of a GID table that are looked at. Tables of 256 are the largest seen.
pub const GIDS_MAX: u32 = 1024;

/// Sizes of inline data asked from a device, the largest first; the first one granted holds.
pub const INLINE_STEPS_BYTES: [u32; 7] = [512, 400, 256, 220, 128, 64, 0];

/// Largest piece of memory registered in one call, unless the device or the caller wants less:
/// bounds how long one registration holds the process's address-space lock.
pub const REGION_BYTES_MAX: u64 = 16 << 30;

/// Memory whose pages are faulted in by one thread in one call.
pub const POPULATE_STEP_BYTES: u64 = 64 << 20;

/// Threads that fault pages in before a registration.
pub const POPULATE_THREADS_MAX: usize = 8;

/// Registrations that may wait for the background thread.
pub const REGISTRATIONS_WAITING_MAX: usize = 1024;

/// Devices of one host.
pub const DEVICES_MAX: usize = 256;

/// Events of one software device that wait to be taken; the oldest is lost beyond it.
pub const EVENTS_WAITING_MAX: usize = 256;
