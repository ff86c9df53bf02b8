//! Bounds of rails: sizes, waits, attempts. Each loop, queue and wait of the crate has its bound
//! here.

use std::time::Duration;

/// Page size that slices and regions are cut at, in bytes.
pub(crate) const PAGE_BYTES: u64 = 4 << 10;
/// Borders of split regions lie on huge pages, so that a device never needs two entries for one.
pub(crate) const REGION_BORDER_BYTES: u64 = 2 << 20;
/// Slices are not cut smaller than this to use more queue pairs, in bytes.
pub(crate) const SLICE_BYTES_MIN: u64 = 64 << 10;
/// Slices are not larger than this, so that failover repeats little, in bytes.
pub(crate) const SLICE_BYTES_MAX: u64 = 1 << 20;
/// Slices that each queue pair gets of a request when its size allows.
pub(crate) const SLICES_PER_LANE: u64 = 2;
/// Slices that one shard keeps at the same time; what is beyond stays in its request, uncut.
pub(crate) const SLICES_MAX: usize = 4096;
/// Requests that one shard keeps at the same time; more are refused.
pub(crate) const REQUESTS_MAX: usize = 65_536;
/// Rails one engine drives, and one peer may announce.
pub const RAILS_MAX: usize = 32;
/// Queue pairs to a peer of few rails per shard, unless the options say otherwise: a device serves
/// each in order, by one engine (Soft-RoCE by one worker), so that one alone does not keep its port
/// busy.
pub const PAIRS_PER_PEER: usize = 4;
/// Pause before another queue pair over rails that have one already is tried again.
pub(crate) const BESIDE_PAUSE: Duration = Duration::from_secs(10);
/// Most queue pairs to one peer per shard.
pub const PAIRS_PER_PEER_MAX: usize = RAILS_MAX;
/// Queue pairs that a shard opens, and as many again that it accepts, unless the options say
/// otherwise.
pub const QUEUE_PAIRS_MAX: usize = 256;
/// Work requests in flight on one queue pair.
pub(crate) const SEND_QUEUE_ENTRIES: u32 = 128;
/// Work requests between two that ask for a completion.
pub(crate) const SIGNAL_EVERY: u32 = 16;
/// Work requests handed to a device with one doorbell.
pub(crate) const DOORBELL_BATCH: usize = 16;
/// Completions taken off a queue at a time.
pub(crate) const COMPLETIONS_PER_POLL: usize = 32;
/// Completions that one turn handles before jobs and timers get theirs.
pub(crate) const COMPLETIONS_PER_TURN: usize = 512;
/// Requests and slices that one turn sets aside for a peer because no lane that is up knows their
/// memory.
pub(crate) const ASIDE_PER_TURN: usize = 256;
/// Payload carried inside the work request where the device can, in bytes.
pub(crate) const INLINE_BYTES: u32 = 256;
/// Least bytes in flight on one queue pair before it counts as full.
pub(crate) const WINDOW_BYTES_MIN: u64 = 256 << 10;
/// Most bytes in flight on one queue pair.
pub(crate) const WINDOW_BYTES_MAX: u64 = 8 << 20;
/// A queue pair is full when what it has in flight keeps it busy for this long. Several over the
/// same rails have a window each: one for all together made writes and reads a fifth slower on
/// Soft-RoCE.
pub(crate) const WINDOW_TIME: Duration = Duration::from_millis(2);

/// Bandwidth is measured over intervals that began with at least this many bytes in flight.
pub(crate) const SAMPLE_BYTES_MIN: u64 = 64 << 10;
/// Memory of the bandwidth estimate.
pub(crate) const BANDWIDTH_MEMORY: Duration = Duration::from_millis(40);
/// How fast the estimate of an idle rail goes back to the port's speed.
pub(crate) const BANDWIDTH_RELAX: Duration = Duration::from_secs(2);
/// Slowest speed an estimate falls to, in bytes per second.
pub(crate) const BANDWIDTH_MIN: f64 = 1e5;
/// Cores of a host, as far as the process may use them, from which on shards are pinned by
/// themselves.
pub(crate) const CORES_MIN: usize = 16;
/// Of the cores of a NUMA node one in so many may have a shard.
pub(crate) const SHARDS_NEAR_SHARE: usize = 2;
/// What a rail that is not preferred for a memory location costs against one that is.
pub(crate) const FAR_WEIGHT: f64 = 1.4;

/// Tries of one slice whose own work request failed.
pub(crate) const ATTEMPTS_MAX: u16 = 6;
/// Times that a slice may be taken down by another one's error.
pub(crate) const FLUSHES_MAX: u16 = 64;

/// Time over which errors of a pair are counted.
pub(crate) const ERROR_WINDOW: Duration = Duration::from_secs(2);
/// First cool-down of a rail or a pair.
pub(crate) const COOL_DOWN_MIN: Duration = Duration::from_millis(200);
/// Longest cool-down.
pub(crate) const COOL_DOWN_MAX: Duration = Duration::from_secs(30);
/// Longest wait for a proving write and its read back.
pub(crate) const PROOF_DEADLINE: Duration = Duration::from_secs(3);
/// Longest wait for a peer's answer to an offer.
pub(crate) const EXCHANGE_DEADLINE: Duration = Duration::from_secs(5);
/// Offers to one peer that fail in a row before its requests fail at once.
pub(crate) const OFFERS_FAILED_MAX: u32 = 3;
/// Time without any completion, beyond what the bytes in flight should take, after which a queue
/// pair is given up.
pub(crate) const STALL: Duration = Duration::from_secs(2);
/// Time that work of a request may stay on the wire after its deadline or cancellation before its
/// queue pairs are broken.
pub(crate) const LINGER: Duration = Duration::from_millis(200);
/// Pause before a peer that did not confirm the end of a queue pair is asked again.
pub(crate) const FENCE_PAUSE: Duration = Duration::from_millis(100);
/// Time after its deadline, cancellation or failure that a request waits for that confirmation
/// before it is reported as unfenced.
pub(crate) const FENCE_LINGER: Duration = Duration::from_secs(1);
/// Idle time after which a queue pair is closed.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(60);
/// Pause between two looks at an accepted queue pair's other end.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Pause between two rounds of housekeeping of a shard.
pub(crate) const HOUSEKEEPING: Duration = Duration::from_millis(50);
/// A lease must last this much longer than now for a work request to be posted under it.
pub(crate) const LEASE_MARGIN: Duration = Duration::from_millis(500);
/// Acknowledgement timeout of queue pairs, as the exponent of 4.096 us (67 ms).
pub(crate) const ACK_TIMEOUT: u8 = 14;
/// Retransmissions before a device reports a lost peer; 7 would mean forever on Soft-RoCE.
pub(crate) const RETRY_COUNT: u8 = 3;
/// Retries while a receiver is not ready; one-sided operations never need one.
pub(crate) const RNR_RETRY_COUNT: u8 = 3;
/// Reads in flight that a queue pair asks for, if the device allows as many.
pub(crate) const READS_IN_FLIGHT: u8 = 16;
/// Bytes of one proving slot.
pub(crate) const PROOF_SLOT_BYTES: u64 = 64;
/// Longest wait of a caller for an answer of its shard.
pub(crate) const SHARD_ANSWER: Duration = Duration::from_secs(10);
/// Buckets of a latency histogram: powers of two of nanoseconds, 256 ns to over a minute.
pub const LATENCY_BUCKETS: usize = 28;
/// Bytes between two work requests that ask for a completion.
pub(crate) const SIGNAL_BYTES: u64 = 128 << 10;
/// Failures in a row after which a lane no longer gives hope to waiting requests.
pub(crate) const LANE_FAILURES_MAX: u32 = 5;
/// Peers that a shard keeps at the same time.
pub(crate) const PEERS_MAX: usize = 16_384;
/// Work requests in flight on an accepted queue pair: liveness writes only.
pub(crate) const ACCEPTED_ENTRIES: u32 = 4;
/// Completions in one queue, unless the device has fewer.
pub(crate) const COMPLETION_ENTRIES_MAX: u32 = 32_000;
/// Pause between two rounds of housekeeping of a shard without work.
pub(crate) const HOUSEKEEPING_IDLE: Duration = Duration::from_secs(1);
/// Accepted queue pairs whose other ends are asked for a liveness write in one round.
pub(crate) const ACCEPTED_ASKED_PER_ROUND: usize = 32;
/// Addresses of one rail that a peer may announce.
pub(crate) const GIDS_PER_RAIL_MAX: usize = 16;
/// Time after which no further queue pair of an offer is joined. An address that does not answer
/// takes the kernel a second.
pub(crate) const JOIN_DEADLINE: Duration = Duration::from_secs(2);
/// A join that fails after so long failed because its address did not answer.
pub(crate) const JOIN_SLOW: Duration = Duration::from_millis(250);
/// How long an address is not tried again after it did not answer.
pub(crate) const SILENT_PAUSE: Duration = Duration::from_secs(5);
/// Addresses of peers that are remembered, as answering or silent.
pub(crate) const ADDRESSES_MAX: usize = 4096;
/// Max threads resolving unknown peers; the rest stay free for known ones.
pub(crate) const UNKNOWN_ADDRESSES_MAX: usize = 2;
/// Longest wait for one of them to be through.
pub(crate) const UNKNOWN_ADDRESS_WAIT: Duration = Duration::from_millis(500);

const _: () = assert!(JOIN_DEADLINE.as_secs() + 1 < EXCHANGE_DEADLINE.as_secs());
