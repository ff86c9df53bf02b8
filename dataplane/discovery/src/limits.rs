//! Bounds of discovery. Invariant: each queue, wait and message of this crate has one of these.

use std::time::Duration;

/// Longest name of a segment or host in bytes.
pub const NAME_BYTES_MAX: usize = 1024;
/// Longest other text of a document or message in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Longest payload of a connection message or text of a notification in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Most registered buffers of one segment.
pub const BUFFERS_MAX: usize = 1 << 16;
/// Most devices of one segment, and so most keys of one buffer.
pub const DEVICES_MAX: usize = 256;
/// Most queue pairs of one connection message.
pub const QUEUE_PAIRS_MAX: usize = 256;

/// Longest handshake frame in bytes, unless `MC_HANDSHAKE_MAX_LENGTH` says otherwise.
pub const FRAME_BYTES_DEFAULT: usize = 1 << 20;
/// Longest answer of a peer in bytes, at least: a document of [`BUFFERS_MAX`] buffers with the keys
/// of several rails. It is longer than a request from an unknown peer may be: we choose which peer
/// to ask, and memory grows only with what arrives.
pub const ANSWER_BYTES: usize = 32 << 20;
/// Smallest `MC_HANDSHAKE_MAX_LENGTH`: a document of a few buffers must fit.
pub const FRAME_BYTES_FLOOR: usize = 4 << 10;
/// Largest `MC_HANDSHAKE_MAX_LENGTH`.
pub const FRAME_BYTES_MAX: usize = 128 << 20;

/// Connections the handshake server holds; the oldest silent one makes room for a new one.
pub const CONNECTIONS_MAX: usize = 256;
/// Longest a peer may take to send its request.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(5);
/// Longest the engine may take to answer a request.
pub const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Longest a peer may take to read its answer.
pub const REPLY_DEADLINE: Duration = Duration::from_secs(5);
/// Requests being answered at the same time.
pub const HANDLERS_MAX: usize = 4;
/// What a connection may hold without asking for memory from the server's budget.
pub const FREE_REQUEST_BYTES: usize = 64 << 10;
/// Least memory for large requests of all connections together: with the usual frame length every
/// connection may have its request there, so that no peer can take another's share.
pub const REQUEST_BUDGET_BYTES_MIN: usize = CONNECTIONS_MAX * FRAME_BYTES_DEFAULT;
/// Pause after the kernel refused to accept a connection, for example for want of descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for handlers when the server closes.
pub const SERVER_CLOSE_DEADLINE: Duration = Duration::from_secs(1);

/// Longest wait for a peer to accept a connection, unless `MC_HANDSHAKE_CONNECT_TIMEOUT` says
/// otherwise.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Longest `MC_HANDSHAKE_CONNECT_TIMEOUT`.
pub const CONNECT_DEADLINE_MAX: Duration = Duration::from_secs(600);
/// Longest wait for a peer's answer once connected.
pub const EXCHANGE_DEADLINE: Duration = Duration::from_secs(15);
/// Longest a renewal may take.
pub const PROBE_DEADLINE: Duration = Duration::from_secs(2);
/// Connections the kernel queues for the handshake server.
pub const BACKLOG_DEFAULT: u32 = 128;
/// Longest a start may wait for the addresses of its own name...
pub const OWN_NAME_DEADLINE: Duration = Duration::from_secs(2);
/// ... and of the services it uses: as long as a call to the master may take, because a start whose
/// master is found only after this would announce an address that other hosts do not reach.
pub const SERVICE_NAMES_DEADLINE: Duration = Duration::from_secs(5);
/// Longest wait for a service of this host at another address of it ...
pub const OWN_PORT_DEADLINE: Duration = Duration::from_millis(250);
/// ... and at how many addresses it is tried.
pub const OWN_PORTS_TRIED: usize = 8;
/// Handshake port of a peer whose name has none.
pub const HANDSHAKE_PORT_DEFAULT: u16 = 12_001;
/// First and last port a handshake server chooses from.
pub const PORTS_DEFAULT: (u16, u16) = (15_000, 17_000);

/// Longest a call may wait for a metadata server, all its requests and waiting for other calls
/// included.
pub const CALL_DEADLINE: Duration = Duration::from_secs(5);
/// Longest closing waits for a metadata server; then entries are left to expire.
pub const CLOSE_DEADLINE: Duration = Duration::from_secs(2);
/// How often a name is looked at again that another engine wrote between the look and the claim.
pub const CLAIMS_MAX: usize = 4;
/// How long an entry outlives a process that died.
pub const ENTRY_LIFE_DEFAULT: Duration = Duration::from_secs(15);
/// Shortest lifetime of entries: etcd grants no shorter lease.
pub const ENTRY_LIFE_MIN: Duration = Duration::from_secs(2);
/// Longest lifetime of entries.
pub const ENTRY_LIFE_MAX: Duration = Duration::from_secs(3600);
/// Renewals within one lifetime of an entry.
pub const BEATS_PER_LIFE: u32 = 3;
/// Pause before a renewal that failed is repeated.
pub const BEAT_RETRY: Duration = Duration::from_secs(1);
/// Documents kept in the cache; the oldest one makes room.
pub const CACHED_DOCUMENTS_MAX: usize = 4096;
/// Most servers in one `etcd://` list.
pub const ENDPOINTS_MAX: usize = 16;

/// Name look-ups at the same time; the system's resolver knows no deadline, so each needs a thread.
pub const LOOK_UPS_MAX: usize = 16;
