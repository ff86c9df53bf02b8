//! The server: what an operator allows on a host. Invariant: one measurement at a time, and no load
//! without a session that the other end opened.

use crate::budget::{LoadBudget, ServerBusy};
use crate::client::measure;
use crate::facts::MeshHost;
use crate::limits::{
    ANSWER_DEADLINE, BUSY_PAUSE, CONNECTIONS_MAX, IDLE_DEADLINE, SESSION_DEADLINE, STOP_LOOK,
};
use crate::line::{hear, say};
use crate::message::{MeshAnswer, MeshRequest};
use crate::plan::LinkPlan;
use crate::session::{MeshSession, echo};
use crate::socket::datagrams;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// A running server. Dropping it stops it; a measurement that is under way ends by itself.
#[derive(Debug)]
pub struct MeshServer {
    address: SocketAddr,
    host: Arc<MeasuredHost>,
    listening: Option<JoinHandle<()>>,
}

/// What all connections share.
#[derive(Debug)]
struct MeasuredHost {
    name: String,
    /// NICs that may be measured; empty for all.
    nics: Vec<String>,
    port: u16,
    budget: Mutex<LoadBudget>,
    session: Mutex<Option<Arc<MeshSession>>>,
    connections: AtomicUsize,
    is_stopped: AtomicBool,
}

/// The right to measure this host, given back at the end.
struct MeasureTurn<'a>(&'a MeasuredHost);

impl MeshServer {
    /// Listens. The host goes by `name`, or by its own if that is empty, and shows its `nics`, or
    /// all.
    ///
    /// # Errors
    /// The address cannot be had, or no thread.
    pub fn start(listen: SocketAddr, name: &str, nics: &[String]) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        // The listening thread wakes to see whether it is to end.
        SockRef::from(&listener).set_read_timeout(Some(STOP_LOOK))?;
        let address = listener.local_addr()?;
        let host = Arc::new(MeasuredHost {
            name: name.to_owned(),
            nics: nics.to_vec(),
            port: address.port(),
            budget: Mutex::default(),
            session: Mutex::default(),
            connections: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
        });
        let shared = Arc::clone(&host);
        let thread = std::thread::Builder::new().name("mesh-listen".to_owned());
        let listening = thread.spawn(move || listen_until_stopped(&listener, &shared))?;
        Ok(Self { address, host, listening: Some(listening) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MeshServer {
    fn drop(&mut self) {
        self.host.is_stopped.store(true, Ordering::Relaxed);
        if let Some(listening) = self.listening.take()
            && listening.join().is_err()
        {
            tracing::error!("The thread that listens for measurements ended by a panic");
        }
    }
}

fn listen_until_stopped(listener: &TcpListener, host: &Arc<MeasuredHost>) {
    while !host.is_stopped.load(Ordering::Relaxed) {
        let Ok((stream, peer)) = listener.accept() else {
            continue;
        };
        if host.connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
            continue;
        }
        host.connections.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(host);
        let serve = move || {
            if let Err(error) = shared.serve(&stream, peer.ip().to_canonical()) {
                tracing::debug!(%peer, %error, "A measurement ended early");
            }
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("mesh-serve".to_owned());
        if let Err(error) = thread.spawn(serve) {
            tracing::warn!(%error, "No thread for a measurement");
            host.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl MeasuredHost {
    fn serve(&self, stream: &TcpStream, peer: IpAddr) -> io::Result<()> {
        let until = Instant::now() + SESSION_DEADLINE;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
        let mut opened: Option<ServedSession<'_>> = None;
        while Instant::now() < until {
            let Some(request) = hear(stream, IDLE_DEADLINE)? else {
                break;
            };
            match (request, &opened) {
                (MeshRequest::Facts, _) => {
                    say(stream, &MeshAnswer::Facts(self.facts()))?;
                }
                (MeshRequest::Measure { nic, address, to, frame_bytes, plan }, None) => {
                    let answer = self.measure((&nic, address), to, frame_bytes, plan);
                    say(stream, &answer)?;
                }
                (MeshRequest::Open { plan }, None) => match self.open(stream, peer, plan) {
                    Ok((session, answer)) => {
                        opened = Some(session);
                        say(stream, &answer)?;
                    }
                    Err(refusal) => say(stream, &refusal)?,
                },
                (MeshRequest::Echo, Some(_)) => {
                    say(stream, &MeshAnswer::Go)?;
                    echo(stream)?;
                }
                (MeshRequest::Counts, Some(opened)) => {
                    say(stream, &MeshAnswer::Counts(opened.session.counts()))?;
                }
                (MeshRequest::Stream { session, is_read }, None) => {
                    return self.carry(stream, peer, session, is_read);
                }
                _ => return say(stream, &refused("this is not the time to ask for it")),
            }
        }
        Ok(())
    }

    fn facts(&self) -> MeshHost {
        MeshHost::of_this_host(&self.name, &self.nics)
    }

    /// The right to measure; load counts in both directions.
    fn turn(&self, plan: LinkPlan) -> Result<MeasureTurn<'_>, MeshAnswer> {
        if let Some(reason) = plan.refusal() {
            return Err(refused(&reason));
        }
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = match budget.take(Instant::now(), plan.load() * 2) {
            Ok(()) => return Ok(MeasureTurn(self)),
            Err(ServerBusy::Taken) => BUSY_PAUSE,
            Err(ServerBusy::Spent(wait)) => wait,
        };
        let reason = "it is measured by another, or was measured for half of the last minute";
        let wait_ms = Some(wait.as_millis() as u64);
        Err(MeshAnswer::Refused { reason: reason.to_owned(), wait_ms })
    }

    /// Measures for another host, and only towards servers like this one, so that an untrusted
    /// program cannot use it to probe other ports.
    fn measure(
        &self,
        from: (&str, IpAddr),
        to: SocketAddr,
        frame_bytes: u32,
        plan: LinkPlan,
    ) -> MeshAnswer {
        if to.port() != self.port {
            let reason = format!(
                "it measures towards its own port {} only; use one on all hosts",
                self.port
            );
            return refused(&reason);
        }
        let _turn = match self.turn(plan) {
            Ok(turn) => turn,
            Err(refusal) => return refusal,
        };
        match measure(from, to, frame_bytes, plan) {
            Ok(readings) => MeshAnswer::Measured(Box::new(readings)),
            Err(error) => MeshAnswer::Failed { reason: error.to_string() },
        }
    }

    fn open(
        &self,
        stream: &TcpStream,
        peer: IpAddr,
        plan: LinkPlan,
    ) -> Result<(ServedSession<'_>, MeshAnswer), MeshAnswer> {
        let turn = self.turn(plan)?;
        let no_session = |_| refused("no session could be made");
        let number = getrandom::u64().map_err(|_| refused("there are no random numbers"))?;
        let session = Arc::new(MeshSession::new(number, peer, plan));
        let local = stream.local_addr().map_err(no_session)?;
        let socket = datagrams(None, local.ip().to_canonical(), self.port);
        let answering = socket.and_then(|socket| session.answer_datagrams(socket)).ok();
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&session));
        let has_datagrams = answering.is_some();
        let answer = MeshAnswer::Opened { session: number, has_datagrams };
        Ok((ServedSession { session, answering, turn }, answer))
    }

    fn carry(
        &self,
        stream: &TcpStream,
        peer: IpAddr,
        number: u64,
        is_read: bool,
    ) -> io::Result<()> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let session = session.filter(|one| one.number == number && one.peer == peer);
        let Some(session) = session.filter(|session| session.take_stream()) else {
            return say(stream, &refused("there is no such session"));
        };
        say(stream, &MeshAnswer::Go)?;
        session.carry(stream, is_read);
        Ok(())
    }
}

impl Drop for MeasureTurn<'_> {
    fn drop(&mut self) {
        self.0.budget.lock().unwrap_or_else(PoisonError::into_inner).give_back();
    }
}

/// A session of a connection; it ends with it.
struct ServedSession<'a> {
    session: Arc<MeshSession>,
    answering: Option<JoinHandle<()>>,
    // After the others: the next session needs the port of the datagrams.
    turn: MeasureTurn<'a>,
}

impl Drop for ServedSession<'_> {
    fn drop(&mut self) {
        self.session.end();
        if let Some(answering) = self.answering.take()
            && answering.join().is_err()
        {
            tracing::error!("The thread that answers datagrams ended by a panic");
        }
        let host = self.turn.0;
        *host.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn refused(reason: &str) -> MeshAnswer {
    MeshAnswer::Refused { reason: reason.to_owned(), wait_ms: None }
}

#[cfg(test)]
mod tests;
