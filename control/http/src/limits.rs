//! Bounds of one HTTP server. Invariant: the worst peer costs at most these.

use std::time::Duration;

/// Open connections. At the limit the oldest one without a request in progress is closed.
pub const CONNECTIONS_MAX: usize = 4096;
/// One server takes at most one of so many of the descriptors that the process may open, so that
/// silent peers leave enough to what the process is for.
pub const DESCRIPTORS_PART: usize = 8;
/// Connections that a server takes however few descriptors there are.
pub const CONNECTIONS_MIN: usize = 16;

/// Time a peer has to send the head of a request; also the longest idle time between requests.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time from the head of a request to the start of its answer, body of the request included.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Life of one connection, after which it is closed between two requests.
pub const CONNECTION_LIFE: Duration = Duration::from_secs(300);

/// Time a connection has to finish its last request after its life or the server ended.
pub const LAST_REQUEST_GRACE: Duration = Duration::from_secs(5);

/// How long a port that is taken is tried, and how often.
pub const PORT_WAIT: Duration = Duration::from_secs(2);
/// Pause between two tries.
pub const PORT_PAUSE: Duration = Duration::from_millis(50);

/// Longest time a stop waits for requests in progress.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// Pause after a failed accept, for example when file descriptors have run out.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Most helper threads on which handlers may block.
pub const BLOCKING_THREADS_MAX: usize = 4;

/// Largest request body in bytes.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// Bytes of answers that wait for their readers, over all connections of a server.
pub const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Answers up to so many bytes are not counted.
pub const SMALL_ANSWER_BYTES: u64 = 16 << 10;

/// What an answer of unknown length counts, in bytes: a page of a listing and what was written of
/// it already.
pub const STREAM_BYTES: u64 = 1 << 20;

/// Bytes of a large answer that are written at a time.
pub const ANSWER_PIECE_BYTES: usize = 64 << 10;

/// Time a peer has to take a large answer.
pub const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// The times a peer may take; tests shorten them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    pub(crate) head: Duration,
    pub(crate) request: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { head: HEAD_TIMEOUT, request: REQUEST_TIMEOUT }
    }
}
/// Answers of at least this many bytes are compressed for those who take gzip.
pub const COMPRESSED_BYTES_MIN: u16 = 1024;
