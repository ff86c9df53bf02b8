//! Every bound of the Python layer. A number that limits something stands here and nowhere else.

use std::time::Duration;

/// Bytes that unfinished write sessions of one store may hold in memory.
pub(crate) const MAX_SESSION_STAGING_BYTES: u64 = 4 << 30;

/// Keys of one store that may be in a read session at a time.
pub(crate) const MAX_READ_SESSION_KEYS: usize = 1 << 20;

/// Sizes of a `setup(config: dict)` that names none, in bytes.
pub(crate) const DEFAULT_SETUP_BYTES: u64 = 16 << 20;

/// Port of the client's HTTP server when none is named.
pub(crate) const DEFAULT_HTTP_PORT: u16 = 9300;

/// Highest NUMA node number accepted.
pub(crate) const MAX_NUMA_NODE: usize = 1023;

/// Alignment of the memory behind a `BufferHandle`, in bytes.
pub(crate) const HANDLE_ALIGNMENT_BYTES: usize = 64;

/// Longest wait for a graceful unmount, in seconds.
pub(crate) const MAX_GRACE_S: u64 = 3600;

/// Longest wait for each step of asking the node daemon of this host for its master.
pub(crate) const INTRODUCTION_DEADLINE: Duration = Duration::from_secs(2);

/// Most bytes that `read_bytes_from_buffer` and `write_bytes_to_buffer` copy in a call.
pub(crate) const MAX_COPY_BYTES: u64 = 1 << 30;

/// Longest wait for a batch of transfers. Batches end earlier by their own deadline.
pub(crate) const MAX_BATCH_WAIT: Duration = Duration::from_secs(3600);

/// How long the interpreter's end waits for calls of other threads to come back from what was
/// closed.
pub(crate) const RETURN_DEADLINE: Duration = Duration::from_secs(2);
