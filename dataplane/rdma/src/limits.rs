//! Bounds of RDMA between processes: leases, waits, queues, sizes of messages.

use std::time::Duration;

/// How long rails and memory may be used after they were asked for, and queue pairs live without a
/// sign of their client. The master parks the space of unfinished puts for longer.
pub const LEASE: Duration = Duration::from_secs(10);
/// Longest wait for an owner's answer about rails.
pub(crate) const ANSWER_DEADLINE: Duration = Duration::from_millis(3500);
/// Pause between two renewals of the lease.
pub(crate) const RENEWAL: Duration = Duration::from_millis(2500);
/// How long rails to a peer are not tried again after they failed or it had none.
pub(crate) const RETRY: Duration = Duration::from_secs(5);
/// How long the connection to an owner is kept while nothing moves over its rails.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// How often an owner is asked at most for memory that its list lacks.
pub(crate) const REFRESH: Duration = Duration::from_millis(100);
/// Pause between two looks at an answer that another thread prepares.
pub(crate) const ANSWER_PAUSE: Duration = Duration::from_millis(1);
/// Longest wait of a caller until its queue pairs at an owner are known to be down.
pub(crate) const FENCE_DEADLINE: Duration = Duration::from_secs(6);
/// Longest wait for the first bytes over new rails.
pub(crate) const PROBE_DEADLINE: Duration = Duration::from_secs(8);
/// Peers that are reached by rails; further ones are reached over TCP.
pub(crate) const PEERS_MAX: usize = 8192;
/// Orders that wait for one owner's connection.
pub(crate) const ORDERS_MAX: usize = 64;
/// Pieces of memory that an owner lists; further ones are reached over TCP.
pub(crate) const REGIONS_MAX: usize = 8192;
/// Queue pairs in one offer.
pub(crate) const PAIRS_MAX: usize = perigee_rails::RAILS_MAX;
/// Largest body of an owner's answer about rails in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 20;
/// Bytes that unfinished answers about rails hold.
pub(crate) const BUDGET_BYTES: usize = 16 << 20;
/// Threads on which an owner joins and takes down queue pairs; peers that are slow to join keep two
/// of them at most.
pub(crate) const JOINERS: usize = 4;
/// Offers that wait for one of these threads; more are refused.
pub(crate) const OFFERS_MAX: usize = 256;
/// Registered memory through which bytes of unregistered memory pass: size of one piece.
pub(crate) const STAGE_BYTES: u64 = 4 << 20;
/// Pieces of it; what finds none free goes over TCP.
pub(crate) const STAGES_MAX: usize = 16;
/// How long an owner keeps staged bytes for a reader that does not return its ticket. Readers count
/// from before they asked, so they end earlier.
pub const TICKET_LIFE: Duration = Duration::from_secs(8);
/// Tickets of one reader.
pub(crate) const TICKETS_MAX: usize = 1024;
/// Where ranges of it begin, in bytes.
pub(crate) const STAGE_ALIGNMENT: u64 = 64;

// An offer may have begun right before the renewal is due.
const _: () = assert!(RENEWAL.as_millis() + 2 * ANSWER_DEADLINE.as_millis() < LEASE.as_millis());
const _: () = assert!(REGIONS_MAX + 2 * PAIRS_MAX < perigee_schemas::limits::VERIFIER_TABLES_MAX);
// A proof reads under the lease that came with the list, and an answer that comes in time is heard.
const _: () = assert!(PROBE_DEADLINE.as_millis() < LEASE.as_millis());
const _: () = assert!(FENCE_DEADLINE.as_millis() > ANSWER_DEADLINE.as_millis());
// A silent peer has no queue pairs soon after its tickets have ended.
const _: () = assert!(TICKET_LIFE.as_millis() < LEASE.as_millis());
// Peers that are slow to join leave a thread to the others.
const _: () = assert!(JOINERS > 2);
const _: () = assert!(STAGE_BYTES.is_multiple_of(STAGE_ALIGNMENT));
const _: () = assert!(BODY_BYTES_MAX <= perigee_schemas::limits::FRAME_BODY_BYTES_MAX);
