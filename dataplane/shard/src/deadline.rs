//! Bounded waits on a stream. The kernel may still own the memory of a wait that is cut short, so
//! the stream is broken first and the wait then ends by itself.

use crate::environment::{Environment, Stream};
use futures_lite::future::or;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

/// Waits for `work`; after `length` the stream is broken and the result is
/// [`io::ErrorKind::TimedOut`].
///
/// # Errors
/// The error of `work`, or that the time is up.
pub async fn within<E: Environment, T>(
    environment: &E,
    length: Duration,
    stream: &E::Stream,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut work = pin!(work);
    let first = or(async { Some(work.as_mut().await) }, async {
        environment.sleep(length).await;
        None
    })
    .await;
    if let Some(result) = first {
        return result;
    }
    stream.shutdown();
    let _ = work.await;
    Err(io::ErrorKind::TimedOut.into())
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
