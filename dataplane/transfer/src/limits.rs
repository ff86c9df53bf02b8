//! Bounds of transfers.

use std::time::Duration;

/// Longest a batch over TCP may take, before the time its bytes get.
pub const TRANSFER_DEADLINE: Duration = Duration::from_secs(10);
/// Time that a batch gets for each of its bytes on top of the deadline: 100 MB/s are not too slow.
pub(crate) const SLOWEST_PER_BYTE_NS: u64 = 10;
/// Most bytes of a read that the calling thread moves itself: several connections filled by the shards are faster and
/// steadier for more.
pub(crate) const CALLER_READ_BYTES_MAX: u64 = 128 << 10;
/// Most bytes of a write that the calling thread moves itself.
pub(crate) const CALLER_WRITE_BYTES_MAX: u64 = 256 << 10;
/// Bytes that a call copies through memory before it looks whether its caller breaks off: what takes some 10 ms.
pub(crate) const COPIED_UNASKED_MAX: u64 = 64 << 20;
/// Owners that connections are kept for; beyond that, those that are not in use are forgotten.
pub(crate) const TARGETS_MAX: usize = 4096;
/// How long a resolved name is used before it is asked for again.
pub(crate) const NAME_FRESH: Duration = Duration::from_secs(30);
/// How long a name that could not be resolved is not asked for again.
pub(crate) const NAME_RETRY: Duration = Duration::from_secs(2);
/// Names that are remembered.
pub(crate) const NAMES_MAX: usize = 4096;
/// Threads that ask for names at the same time.
pub(crate) const RESOLVERS_MAX: usize = 16;
/// Payload bytes that one slice aims at when a batch is large.
pub(crate) const SLICE_BYTES_MAX: u64 = 1 << 20;
/// Payload bytes below which a batch is not split further.
pub(crate) const SLICE_BYTES_MIN: u64 = 128 << 10;
/// Slices a batch is split into when it is neither small nor large.
pub(crate) const SLICES_PER_BATCH: u64 = 8;

/// How long rails and memory may be used after they were asked for, and queue pairs live without a sign of their client.
/// The master parks the space of unfinished puts for longer.
pub const RAIL_LEASE: Duration = Duration::from_secs(10);
/// Pause between two renewals of that lease.
pub(crate) const RAIL_RENEWAL: Duration = Duration::from_secs(3);
/// How long rails to a peer are not tried again after they failed or it had none.
pub(crate) const RAIL_RETRY: Duration = Duration::from_secs(5);
/// How long the talk with a peer goes on while nothing moves over its rails.
pub(crate) const RAIL_IDLE: Duration = Duration::from_secs(60);
/// Longest wait for an owner's answer about rails.
pub(crate) const RAIL_ANSWER: Duration = Duration::from_secs(5);
/// Pause between two looks at an answer that another thread prepares.
pub(crate) const RAIL_ANSWER_PAUSE: Duration = Duration::from_millis(1);
/// Longest wait of a caller until its queue pairs at an owner are known to be down.
pub(crate) const RAIL_FENCE_DEADLINE: Duration = Duration::from_secs(6);
/// Longest wait for the first bytes over new rails.
pub(crate) const RAIL_PROBE_DEADLINE: Duration = Duration::from_secs(8);
/// Peers that a client reaches by rails; further ones are reached over TCP.
pub(crate) const RAIL_PEERS_MAX: usize = 4096;
/// Orders that wait for one talk.
pub(crate) const RAIL_ORDERS_MAX: usize = 64;
/// Segments that an owner tells one client of; further ones are reached over TCP.
pub(crate) const RAIL_REGIONS_MAX: usize = 1024;
/// Queue pairs in one offer.
pub(crate) const RAIL_PAIRS_MAX: usize = perigee_rails::RAILS_MAX;
/// Largest body of an owner's answer about rails in bytes.
pub(crate) const RAIL_BODY_BYTES_MAX: usize = 1 << 20;
/// Bytes that unfinished answers about rails hold.
pub(crate) const RAIL_BUDGET_BYTES: usize = 16 << 20;
/// Threads on which an owner joins and takes down queue pairs; peers that are slow to join keep two of them at most.
pub(crate) const RAIL_DESKS: usize = 4;
/// Offers that wait for one of these threads; more are refused.
pub(crate) const RAIL_OFFERS_MAX: usize = 256;
/// Objects whose extent has at most so many bytes travel in one message with their footer, if they are copied anyway.
pub(crate) const RAIL_MESSAGE_BYTES: u64 = 64 << 10;
/// Objects whose extent has at most so many bytes are copied even if their memory is registered: it saves a round trip.
pub(crate) const RAIL_COPIED_BYTES: u64 = 16 << 10;
/// Registered memory through which bytes of unregistered memory pass: size of one piece.
pub(crate) const STAGE_BYTES: u64 = 4 << 20;
/// Pieces of it; what finds none free goes over TCP.
pub(crate) const STAGES_MAX: usize = 16;
/// Where ranges of it begin, in bytes.
pub(crate) const STAGE_ALIGNMENT: u64 = 64;

const _: () = assert!(RAIL_RENEWAL.as_secs() + RAIL_ANSWER.as_secs() < RAIL_LEASE.as_secs());
const _: () = assert!(SLICE_BYTES_MAX <= perigee_mover::REQUEST_BYTES_MAX);
