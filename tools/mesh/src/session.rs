//! The answering end of one measurement.

use crate::datagrams;
use crate::limits::{LOAD_MARGIN, ROUND_TRIPS_TIME};
use crate::load::{RateMeter, receive, send};
use crate::message::{ECHO_BYTES, LAST_ECHO, SessionCounts};
use crate::plan::LinkPlan;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The answering end of one measurement.
#[derive(Debug)]
pub(crate) struct MeshSession {
    /// By which its connections and datagrams are known.
    pub(crate) number: u64,
    /// Who opened it.
    pub(crate) peer: IpAddr,
    plan: LinkPlan,
    meter: RateMeter,
    datagrams: AtomicU32,
    sent_again: Mutex<[u64; 2]>,
    /// Connections with load that may still be opened...
    streams_left: AtomicU32,
    /// ... and those that are there.
    streams: AtomicU32,
    is_over: AtomicBool,
}

impl MeshSession {
    /// One that nothing was asked of.
    pub(crate) fn new(number: u64, peer: IpAddr, plan: LinkPlan) -> Self {
        Self {
            number,
            peer,
            plan,
            meter: RateMeter::new(plan.load()),
            datagrams: AtomicU32::new(0),
            sent_again: Mutex::default(),
            streams_left: AtomicU32::new(plan.streams * 2),
            streams: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Answers datagrams on a thread of its own until the session is over.
    pub(crate) fn answer_datagrams(
        self: &Arc<Self>,
        socket: UdpSocket,
    ) -> io::Result<JoinHandle<()>> {
        let session = Arc::clone(self);
        let answer = move || {
            let who = (session.number, session.peer);
            datagrams::answer(&socket, who, &session.datagrams, &session.is_over);
        };
        let thread = std::thread::Builder::new().name("mesh-datagrams".to_owned());
        thread.spawn(answer)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Carries load on a connection: away from here if the other end reads.
    pub(crate) fn carry(&self, stream: &TcpStream, is_read: bool) {
        if is_read {
            let segments = send(stream, self.plan.load());
            let mut all = self.sent_again.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter_mut().zip(segments).for_each(|(sum, one)| *sum += one);
        } else {
            receive(stream, &self.meter, self.plan.load() + LOAD_MARGIN);
        }
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes one of the connections that the plan allows.
    pub(crate) fn take_stream(&self) -> bool {
        let left = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        let is_taken = self.streams_left.fetch_update(order, order, left).is_ok();
        self.streams.fetch_add(u32::from(is_taken), order);
        is_taken
    }

    /// What it counted, as soon as all load has ended.
    pub(crate) fn counts(&self) -> SessionCounts {
        let until = Instant::now() + self.plan.load() + LOAD_MARGIN * 2;
        while self.streams.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        SessionCounts {
            datagrams: self.datagrams.load(Ordering::Relaxed),
            received: self.meter.rate(),
            sent_again: *self.sent_again.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Sends back what comes until the last message of a series.
pub(crate) fn echo(mut stream: &TcpStream) -> io::Result<()> {
    let until = Instant::now() + ROUND_TRIPS_TIME * 10;
    let mut bytes = [0u8; ECHO_BYTES];
    stream.set_read_timeout(Some(ROUND_TRIPS_TIME * 10))?;
    loop {
        stream.read_exact(&mut bytes)?;
        stream.write_all(&bytes)?;
        if bytes[0] == LAST_ECHO {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
