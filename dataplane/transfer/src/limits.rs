//! Bounds of transfers.

use std::time::Duration;

/// Longest a batch over TCP may take, before the time its bytes get.
pub const TRANSFER_DEADLINE: Duration = Duration::from_secs(10);
/// Time that a batch gets for each of its bytes on top of the deadline: 100 MB/s are not too slow.
pub(crate) const SLOWEST_PER_BYTE_NS: u64 = 10;
/// Most bytes of a read that the calling thread moves itself: several connections filled by the
/// shards are faster and steadier for more.
pub(crate) const CALLER_READ_BYTES_MAX: u64 = 128 << 10;
/// Most bytes of a write that the calling thread moves itself.
pub(crate) const CALLER_WRITE_BYTES_MAX: u64 = 256 << 10;
/// Bytes that a call copies through memory before it looks whether its caller breaks off: what
/// takes some 10 ms.
pub(crate) const COPIED_UNASKED_MAX: u64 = 64 << 20;
/// Owners that connections are kept for; beyond that, those that are not in use are forgotten.
pub(crate) const TARGETS_MAX: usize = 4096;
/// Payload bytes that one slice aims at when a batch is large.
pub(crate) const SLICE_BYTES_MAX: u64 = 1 << 20;
/// The same of a slice that is read from a disk. A connection has one slice under way: all of them
/// together ask for as much as keeps a disk busy.
pub(crate) const DISK_SLICE_BYTES_MAX: u64 = 8 << 20;
/// Payload bytes below which a batch is not split further.
pub(crate) const SLICE_BYTES_MIN: u64 = 128 << 10;
/// Slices a batch is split into when it is neither small nor large.
pub(crate) const SLICES_PER_BATCH: u64 = 8;
/// The same of a batch that is read from a disk: one for each connection, all asked for at once.
pub(crate) const DISK_SLICES_PER_BATCH: u64 = 4;

/// Objects whose extent has at most so many bytes travel in one message with their footer, if they
/// are copied anyway.
pub(crate) const RAIL_MESSAGE_BYTES: u64 = 64 << 10;
/// Objects whose extent has at most so many bytes are copied even if their memory is registered: it
/// saves a round trip.
pub(crate) const RAIL_COPIED_BYTES: u64 = 16 << 10;
// Only the last slice of an object ends inside of a block, whose checksum is one writer's.
const _: () = assert!(SLICE_BYTES_MIN.is_multiple_of(perigee_schemas::extent::BLOCK_BYTES));
const _: () = assert!(SLICE_BYTES_MAX.is_multiple_of(perigee_schemas::extent::BLOCK_BYTES));
const _: () = assert!(RAIL_COPIED_BYTES <= RAIL_MESSAGE_BYTES);
const _: () = assert!(SLICE_BYTES_MAX <= perigee_mover::REQUEST_BYTES_MAX);
const _: () = assert!(DISK_SLICE_BYTES_MAX <= perigee_mover::REQUEST_BYTES_MAX);
// What a disk takes long for is still read from its stage.
const _: () = assert!(
    perigee_ssd::limits::READ_DEADLINE.as_millis() + STAGED_TIME_MIN.as_millis()
        < perigee_rdma::TICKET_LIFE.as_millis()
);

/// Objects of a disk that have fewer bytes come over TCP: to copy them takes less than to read them
/// from where they were staged, and to return their ticket.
pub(crate) const STAGED_BYTES_MIN: u64 = 16 << 10;
/// Time that a ticket must have left for its bytes to be read. With less they come over TCP.
pub(crate) const STAGED_TIME_MIN: Duration = Duration::from_millis(500);
/// Longest that the bytes of one request take from a disk; the disk itself gives up a little
/// earlier.
pub(crate) const DISK_READ_DEADLINE: Duration = Duration::from_secs(6);
/// Bytes that a call asks of a disk of its own process at once, in each of several questions: while
/// it copies what one has brought, the disk reads the others.
pub(crate) const OWN_DISK_CALL_BYTES: u64 = 1 << 20;
/// Bytes that a call has asked of a disk of its own process and not yet copied: twice what a disk
/// reads at once, which ends what it reads in an order of its own.
pub(crate) const OWN_DISK_ASKED_BYTES: u64 = 64 << 20;
/// Bytes that are brought from disks to memory together: until they are copied they have memory
/// that clients read through, too.
pub(crate) const PROMOTED_BYTES: u64 = 8 << 20;
