//! Accepts consumers. Invariant: connections are bounded, and one that fails ends alone.

use crate::endpoint::BoundEndpoint;
use crate::limits::{ACCEPT_PAUSE, CONNECTIONS_MAX, SILENT_HOST};
use socket2::{SockRef, TcpKeepalive};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// The two directions of a connection.
pub(crate) type Streams = (Box<dyn AsyncRead + Unpin>, Box<dyn AsyncWrite + Unpin>);

enum Listener {
    Tcp(TcpListener),
    Ipc(UnixListener),
}

/// Runs `each` for every connection, until it is dropped.
pub(crate) async fn serve<W: Future<Output = io::Result<()>> + 'static>(
    bound: BoundEndpoint,
    each: impl Fn(Streams) -> W,
) -> io::Result<()> {
    let listener = match bound {
        BoundEndpoint::Tcp(listener) => Listener::Tcp(TcpListener::from_std(listener)?),
        BoundEndpoint::Ipc(listener) => Listener::Ipc(UnixListener::from_std(listener)?),
    };
    let open = Rc::new(Cell::new(0));
    let mut was_full = false;
    loop {
        let streams = match listener.accept().await {
            Ok(streams) => streams,
            Err(error) => {
                tracing::warn!(%error, "A consumer of KV events could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let is_full = open.get() >= CONNECTIONS_MAX;
        if is_full && !was_full {
            tracing::warn!(CONNECTIONS_MAX, "Consumers of KV events are refused: too many");
        }
        was_full = is_full;
        if is_full {
            continue;
        }
        open.set(open.get() + 1);
        let (open, work) = (open.clone(), each(streams));
        tokio::task::spawn_local(async move {
            if let Err(error) = work.await {
                tracing::debug!(%error, "The connection of a consumer of KV events ended");
            }
            open.set(open.get() - 1);
        });
    }
}

impl Listener {
    async fn accept(&self) -> io::Result<Streams> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                SockRef::from(&stream).set_tcp_keepalive(&keepalive())?;
                let (from, to) = stream.into_split();
                Ok((Box::new(from), Box::new(to)))
            }
            Self::Ipc(listener) => {
                let (stream, _) = listener.accept().await?;
                let (from, to) = stream.into_split();
                Ok((Box::new(from), Box::new(to)))
            }
        }
    }
}

/// Ends connections whose host is gone: most are never written to.
fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(SILENT_HOST).with_interval(SILENT_HOST).with_retries(2)
}
