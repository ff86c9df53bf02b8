//! Why events are not published. Invariant: each message names the setting to change.

/// Why the publisher did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventsError {
    /// The endpoint is not one.
    #[error("`{0}` is no endpoint to listen on; write tcp://HOST:PORT, tcp://*:PORT or ipc://PATH")]
    Endpoint(String),
    /// The endpoint cannot be listened on.
    #[error("KV events cannot listen on {endpoint}: {cause}; choose another kv_events endpoint")]
    Listen {
        /// Where, as it was written.
        endpoint: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The thread cannot be started.
    #[error("Cannot start the thread that publishes KV events: {0}")]
    Thread(std::io::Error),
}
