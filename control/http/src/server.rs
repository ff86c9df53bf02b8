//! The listening thread. Invariant: the socket is bound before `start` returns, so a port in use is
//! an error of the caller and not a line in a log.

use crate::answers::note_size;
use crate::connection::Connections;
use crate::limits::{
    ACCEPT_PAUSE, BLOCKING_THREADS_MAX, BODY_BYTES_MAX, COMPRESSED_BYTES_MIN, Deadlines,
    PORT_PAUSE, PORT_WAIT, STOP_GRACE,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::map_response;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower_http::compression::predicate::{Predicate, SizeAbove};
use tower_http::compression::{CompressionLayer, DefaultPredicate};

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[error("HTTP server {name} cannot listen on {address}: {cause}; choose another address or port")]
pub struct HttpStartError {
    /// Name of the server.
    pub name: &'static str,
    /// Address it was to listen on.
    pub address: SocketAddr,
    /// Cause reported by the system.
    pub cause: std::io::Error,
}

/// Starts servers.
#[derive(Debug)]
pub struct HttpServer;

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct HttpHandle {
    local_addr: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Binds `address` and serves `router` on a new thread called `name`. A port that is taken is
    /// tried for [`PORT_WAIT`]: the kernel frees those of a killed process a moment after it is
    /// gone, and a supervisor that restarts it at once must not fail for that.
    ///
    /// # Errors
    /// The address cannot be bound or the thread cannot be made.
    pub fn start(
        name: &'static str,
        address: SocketAddr,
        router: Router,
    ) -> Result<HttpHandle, HttpStartError> {
        let bound = bind_within(address, PORT_WAIT);
        Self::serve(name, (address, bound), router, Deadlines::default())
    }

    /// As [`HttpServer::start`], and a port that is taken is an error at once.
    ///
    /// # Errors
    /// The address cannot be bound or the thread cannot be made.
    pub fn start_if_free(
        name: &'static str,
        address: SocketAddr,
        router: Router,
    ) -> Result<HttpHandle, HttpStartError> {
        let bound = bind_within(address, Duration::ZERO);
        Self::serve(name, (address, bound), router, Deadlines::default())
    }

    fn serve(
        name: &'static str,
        (address, bound): (SocketAddr, io::Result<std::net::TcpListener>),
        router: Router,
        deadlines: Deadlines,
    ) -> Result<HttpHandle, HttpStartError> {
        let failed = |cause| HttpStartError { name, address, cause };
        let socket = bound.map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let local_addr = socket.local_addr().map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()
            .map_err(failed)?;
        let is_worth_it = DefaultPredicate::new().and(SizeAbove::new(COMPRESSED_BYTES_MIN));
        let router = router
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(map_response(note_size))
            .layer(CompressionLayer::new().compress_when(is_worth_it));
        let connections = Connections::new(router, stopped, deadlines);
        let serve = move || {
            runtime.block_on(accept_all(name, socket, connections));
            runtime.shutdown_background();
        };
        let thread =
            std::thread::Builder::new().name(name.to_owned()).spawn(serve).map_err(failed)?;
        Ok(HttpHandle { local_addr, stop, thread: Some(thread) })
    }
}

impl HttpHandle {
    /// The address in use; holds the real port when port 0 was asked for.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops accepting, lets requests in progress finish for a bounded time, and joins the thread.
    pub fn stop(mut self) {
        self.stop_and_join();
    }

    fn stop_and_join(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(address = %self.local_addr, "HTTP thread ended by a panic");
        }
    }
}

impl Drop for HttpHandle {
    fn drop(&mut self) {
        self.stop_and_join();
    }
}

fn bind_within(address: SocketAddr, wait: Duration) -> io::Result<std::net::TcpListener> {
    let deadline = Instant::now() + wait;
    loop {
        match std::net::TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(PORT_PAUSE);
            }
            other => return other,
        }
    }
}

async fn accept_all(
    name: &'static str,
    socket: std::net::TcpListener,
    mut connections: Connections,
) {
    let mut stopped = connections.stopped();
    let listener = match TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(name, %error, "HTTP listener cannot be watched");
            return;
        }
    };
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => connections.serve(stream, from),
                Err(error) => {
                    tracing::warn!(name, %error, "HTTP connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            // A closed channel means the handle is gone, which is a stop as well.
            _ = stopped.changed() => break,
        }
    }
    drop(listener);
    connections.finish(STOP_GRACE).await;
}

#[cfg(test)]
mod tests;
