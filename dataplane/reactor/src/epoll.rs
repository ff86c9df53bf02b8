//! Operations on an epoll set, where io_uring is refused: each is tried at once, and what the
//! kernel cannot do yet is tried again when its descriptor is ready. Files are left to a few
//! threads.

mod alarm;
mod file_threads;
mod queues;
pub(crate) mod set;
