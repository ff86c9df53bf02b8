//! The handshake server: one thread with all connections, few threads for the handler.
//!
//! It runs on tokio, away from the data path: waiting peers are entries in a table instead of
//! threads, so slow ones cost nothing, and deadlines come with it; the HTTP servers need it anyway.
//!
//! Invariant: at most `CONNECTIONS_MAX` peers are connected. When one more comes, the one goes
//! that has been waited for longest, so slow peers never keep others out.

use super::handler::Handler;
use super::listener::BoundServer;
use super::session::{HandshakeSession, SessionContext};
use crate::error::DiscoveryError;
use crate::limits::{
    ACCEPT_PAUSE, CONNECTIONS_MAX, REQUEST_BUDGET_BYTES_MIN, SERVER_CLOSE_DEADLINE,
};
use crate::settings::DiscoverySettings;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

/// A running server; closes when it is dropped.
#[derive(Debug)]
pub struct HandshakeServer {
    port: u16,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl BoundServer {
    /// Begins to answer.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn serve(self, handler: Arc<dyn Handler>) -> Result<HandshakeServer, DiscoveryError> {
        HandshakeServer::start(self, handler)
    }
}

impl HandshakeServer {
    /// Takes a port: the one given, or a random free one of `MC_MIN_RPC_PORT` to
    /// `MC_MAX_RPC_PORT`.
    ///
    /// # Errors
    /// The port, or every port of the range, is taken or forbidden.
    pub fn bind(
        port: Option<u16>,
        settings: &DiscoverySettings,
    ) -> Result<BoundServer, DiscoveryError> {
        BoundServer::bind(port, settings)
    }

    fn start(bound: BoundServer, handler: Arc<dyn Handler>) -> Result<Self, DiscoveryError> {
        let (stop, stopped) = watch::channel(false);
        let budget = REQUEST_BUDGET_BYTES_MIN.max(4 * bound.frame_bytes_max);
        let shared = Arc::new(SessionContext {
            handler,
            frame_bytes_max: bound.frame_bytes_max,
            budget: Arc::new(Semaphore::new(budget)),
        });
        let (port, runtime, listener) = (bound.port, bound.runtime, bound.listener);
        let serve = move || {
            runtime.block_on(accept(listener, shared, stopped));
            runtime.shutdown_timeout(SERVER_CLOSE_DEADLINE);
        };
        let thread =
            Builder::new().name("perigee-greet".to_owned()).spawn(serve).map_err(|error| {
                DiscoveryError::System {
                    what: "starting the thread of the handshake server",
                    reason: error.to_string(),
                }
            })?;
        Ok(Self { port, stop, thread: Mutex::new(Some(thread)) })
    }

    /// The port peers connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Frees the port and cuts all connections. Returns when the port is free, at the latest
    /// [`SERVER_CLOSE_DEADLINE`] after the last answer that is being given.
    pub fn close(&self) {
        let _ = self.stop.send(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of the thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for HandshakeServer {
    fn drop(&mut self) {
        self.close();
    }
}

struct OpenSession {
    /// It waits for this engine's answer; otherwise this engine waits for the peer.
    answering: Arc<AtomicBool>,
    abort: AbortHandle,
}

async fn accept(
    listener: TcpListener,
    shared: Arc<SessionContext>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut open = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        match accepted {
            Ok((stream, _)) => admit(&mut open, stream, &shared),
            Err(error) => {
                tracing::warn!(%error, "The handshake server could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection, sending away the peer that was waited for longest at the limit.
fn admit(open: &mut VecDeque<OpenSession>, stream: TcpStream, shared: &Arc<SessionContext>) {
    if open.len() >= CONNECTIONS_MAX {
        open.retain(|one| !one.abort.is_finished());
    }
    if open.len() >= CONNECTIONS_MAX {
        let silent = open.iter().position(|one| !one.answering.load(Relaxed));
        match silent.and_then(|index| open.remove(index)) {
            Some(one) => one.abort.abort(),
            None => return,
        }
    }
    let answering = Arc::new(AtomicBool::new(false));
    let session = HandshakeSession::new(stream, Arc::clone(shared), Arc::clone(&answering));
    let abort = tokio::spawn(session.run()).abort_handle();
    open.push_back(OpenSession { answering, abort });
}
