//! Bounded waits on a stream. The kernel may still own the memory of a wait that is cut short, so
//! the stream is broken first and the wait then ends by itself.
//! Invariant: a wait that is cut short, by its deadline or because it is dropped, leaves a broken
//! stream: what the kernel still does on it would keep it open for as long as the peer is silent.

use crate::environment::{Environment, Stream};
use crate::limits::VANISHED_LOOK;
use futures_lite::future::or;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

/// Breaks a stream when it is dropped, unless the wait on it has ended.
struct PendingWait<'a, S: Stream> {
    stream: &'a S,
    has_ended: bool,
}

impl<S: Stream> Drop for PendingWait<'_, S> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.stream.shutdown();
        }
    }
}

/// Waits for `work`; after `length` the stream is broken and the result is
/// [`io::ErrorKind::TimedOut`]. Dropping it breaks the stream too. If the peer's host vanishes
/// before, the result is the kernel's `ETIMEDOUT`, as keep-alive has it.
///
/// # Errors
/// The error of `work`, or that the time is up.
pub async fn within<E: Environment, T>(
    environment: &E,
    length: Duration,
    stream: &E::Stream,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut pending = PendingWait { stream, has_ended: false };
    let mut work = pin!(work);
    let cut = until_cut(environment, length, stream);
    let first = or(async { Ok(work.as_mut().await) }, async { Err(cut.await) }).await;
    match first {
        Ok(result) => {
            pending.has_ended = true;
            result
        }
        Err(reason) => {
            stream.shutdown();
            let _ = work.await;
            pending.has_ended = true;
            Err(reason)
        }
    }
}

/// Why a wait on a stream must end: the time is up, or its peer's host has vanished.
async fn until_cut<E: Environment>(
    environment: &E,
    length: Duration,
    stream: &E::Stream,
) -> io::Error {
    let end = environment.now() + length;
    loop {
        let left = end.saturating_sub(environment.now());
        if left.is_zero() {
            return io::ErrorKind::TimedOut.into();
        }
        environment.sleep(left.min(VANISHED_LOOK)).await;
        if stream.has_vanished() {
            return io::Error::from_raw_os_error(libc::ETIMEDOUT);
        }
    }
}

/// Waits for `work`, and gives it up after `length`. Only for work that owns nothing the kernel
/// writes to.
pub async fn at_most<E: Environment, T>(
    environment: &E,
    length: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    or(async { Some(work.await) }, async {
        environment.sleep(length).await;
        None
    })
    .await
}

/// Waits for a connection; gives it up after `length`.
///
/// # Errors
/// The peer refuses, or the time is up.
pub async fn connect_within<E: Environment>(
    environment: &E,
    length: Duration,
    address: std::net::SocketAddr,
) -> io::Result<E::Stream> {
    or(environment.connect(address), async {
        environment.sleep(length).await;
        Err(io::ErrorKind::TimedOut.into())
    })
    .await
}
