//! Bounds of what consumers and strangers can make the publisher keep or wait for.

use std::time::Duration;

/// Events of one batch, which is one message.
pub(crate) const BATCH_EVENTS_MAX: u16 = 64;
/// Bytes beyond which messages that are sent at once are not extended: about what a core keeps
/// near.
pub(crate) const RUN_BYTES_MAX: usize = 96 << 10;
/// Pause after each look for events, so that a busy master wakes the publisher once per pause:
/// waking and a system call cost as much as some fifty events. The first event after a quiet time
/// waits for nothing, and an engine publishes its own once per step, which is no shorter.
pub(crate) const LINGER: Duration = Duration::from_millis(4);
/// Runs whose memory is kept for the next ones.
pub(crate) const SPARE_RUNS_MAX: usize = 16;
/// Batches that can be replayed.
pub(crate) const LOG_BATCHES_MAX: usize = 10_000;
/// Bytes of the batches that can be replayed.
pub(crate) const LOG_BYTES_MAX: usize = 64 << 20;
/// Connections of one endpoint.
pub(crate) const CONNECTIONS_MAX: usize = 256;
/// Time for the greeting and READY of a peer.
pub(crate) const GREETING_DEADLINE: Duration = Duration::from_secs(10);
/// Time for messages that are sent at once to be taken by a peer.
pub(crate) const SEND_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes of a frame that a peer sends: a subscription or a sequence number.
pub(crate) const PEER_FRAME_BYTES_MAX: u64 = 1024;
/// Frames of a message that a peer sends.
pub(crate) const PEER_FRAMES_MAX: usize = 4;
/// Pause after a connection could not be accepted, for want of descriptors say.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time after which a host that says nothing is asked whether it is there.
pub(crate) const SILENT_HOST: Duration = Duration::from_secs(20);
/// Longest time between two questions of a replay connection.
pub(crate) const REPLAY_IDLE: Duration = Duration::from_secs(300);
/// Longest wait for the publisher's thread to end.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(2);
