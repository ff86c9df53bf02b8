//! What a program says of its build. Invariant: fixed at compile time.

/// What runs, for `perigee_build_info`.
#[derive(Debug, Clone, Copy)]
pub struct BuildInfo {
    /// Version text.
    pub version: &'static str,
    /// Source revision, or `unknown`.
    pub commit: &'static str,
    /// What shards of the process run on: `io_uring` or `epoll`.
    pub reactor: &'static str,
}
