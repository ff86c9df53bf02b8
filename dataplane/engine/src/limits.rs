//! Bounds of the engine. Every queue, wait and retry has its number here.

use std::time::Duration;

/// Deadline of a batch that names none, before the time its bytes get.
pub const TRANSFER_DEADLINE: Duration = Duration::from_secs(30);
/// Longest deadline; longer ones are cut to it.
pub(crate) const DEADLINE_MAX: Duration = Duration::from_secs(1 << 30);
/// Time that a batch gets for each of its bytes on top of its deadline.
pub(crate) const SLOWEST_PER_BYTE_NS: u64 = 1;
/// Most requests in one batch.
pub const BATCH_REQUESTS_MAX: usize = 1 << 20;
/// Most payload bytes in one batch: what it is cut into takes about 100 bytes for each MiB.
pub(crate) const BATCH_BYTES_MAX: u64 = 1 << 40;
/// Most batches that wait to be released.
pub const BATCHES_MAX: usize = 1 << 16;
/// Most buffers registered at the same time.
pub const REGIONS_MAX: usize = 1 << 16;
/// Most notifies that wait to be taken; newer ones are refused beyond that.
pub const NOTIFIES_MAX: usize = 4096;
/// Peers that connections and rails are kept for; beyond that, those not in use are asked again.
pub(crate) const TARGETS_MAX: usize = 8192;
/// Peers whose run is remembered.
pub(crate) const PEERS_REMEMBERED_MAX: usize = 1 << 16;
/// Peers that are looked up at the same time for batches that no caller waits for; each lookup
/// takes a thread.
pub(crate) const REPEAT_PEERS_MAX: usize = 64;
/// How often idle connections are looked at for peers that have closed them.
pub(crate) const CONNECTION_SWEEP: Duration = Duration::from_secs(5);
/// Notifies of asynchronous batches that wait to be delivered.
pub(crate) const HERALD_QUEUE_MAX: usize = 1024;
/// Longest wait of `unregister` for operations that use the memory.
pub const UNREGISTER_DEADLINE: Duration = Duration::from_secs(40);
/// How long `unregister` waits before it breaks the connections of peers that use the memory.
pub(crate) const UNREGISTER_GRACE: Duration = Duration::from_secs(1);

/// Payload bytes that one slice aims at when a batch is large.
pub(crate) const SLICE_BYTES_MAX: u64 = 1 << 20;
/// Payload bytes below which a batch is not split further.
pub(crate) const SLICE_BYTES_MIN: u64 = 128 << 10;
/// Slices a batch is split into when it is neither small nor large.
pub(crate) const SLICES_PER_BATCH: u64 = 8;
/// Most bytes of a blocking read that the calling thread moves itself.
pub(crate) const CALLER_READ_BYTES_MAX: u64 = 128 << 10;
/// Addresses of one peer that connections are spread over.
pub(crate) const PEER_ADDRESSES_MAX: usize = 16;

/// Threads that copy for batches that no call waits for; more do not make memory faster.
pub(crate) const COPIERS_MAX: usize = 4;
/// Slices that wait for them.
pub(crate) const COPIER_QUEUE_MAX: usize = 1024;
/// Bytes that a submitting thread copies itself: handing them over would take longer.
pub(crate) const SUBMITTER_COPY_BYTES_MAX: u64 = 64 << 10;

/// Memory that managed buffers come from.
pub const ARENA_BYTES: u64 = 2 << 30;
/// Smallest managed buffer.
pub const MANAGED_BYTES_MIN: u64 = 8 << 10;
/// Largest managed buffer.
pub const MANAGED_BYTES_MAX: u64 = 256 << 20;

/// Pause between two lines about what was read and written, if none is set...
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// ... and the longest that can be set, in seconds.
pub(crate) const REPORT_SECONDS_MAX: u64 = 86_400;

const _: () = assert!(SLICE_BYTES_MAX <= perigee_mover::REQUEST_BYTES_MAX);
