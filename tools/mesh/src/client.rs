//! The asking end of one measurement. Invariant: each step has a deadline, and the number of steps
//! is bounded.

use crate::datagrams::{DatagramProbe, DatagramTally};
use crate::facts::MeshHost;
use crate::limits::{
    ANSWER_DEADLINE, BUSY_DEADLINE, BUSY_PAUSE, CONNECT_DEADLINE, LOAD_MARGIN, ROUND_TRIPS_MAX,
    ROUND_TRIPS_TIME, SESSION_DEADLINE,
};
use crate::line::{hear, say};
use crate::load::{RateMeter, receive, send};
use crate::message::{ECHO_BYTES, LAST_ECHO, MeshAnswer, MeshRequest, SessionCounts};
use crate::plan::LinkPlan;
use crate::readings::LinkReadings;
use crate::socket::{connect, datagrams};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Why a host or a link was not measured.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// No connection.
    #[error("no connection to {to}: {cause}")]
    Connect {
        /// Where to.
        to: SocketAddr,
        /// Why.
        cause: io::Error,
    },
    /// The connection broke, or an answer did not come.
    #[error("{to} does not answer: {cause}")]
    Answer {
        /// Who.
        to: SocketAddr,
        /// Why.
        cause: io::Error,
    },
    /// The server does not want to.
    #[error("{to} refuses: {reason}")]
    Refused {
        /// Who.
        to: SocketAddr,
        /// What it says.
        reason: String,
    },
    /// The server could not measure the link.
    #[error("{0}")]
    Failed(String),
}

/// Facts of the server at `to`.
pub(crate) fn facts(to: SocketAddr) -> Result<MeshHost, MeshError> {
    let stream = TcpStream::connect_timeout(&to, CONNECT_DEADLINE)
        .map_err(|cause| MeshError::Connect { to, cause })?;
    let caller = MeshCaller { stream, to };
    match caller.ask(&MeshRequest::Facts, ANSWER_DEADLINE)? {
        MeshAnswer::Facts(facts) => Ok(facts),
        other => Err(caller.refusal(other)),
    }
}

/// Has the server at `control` measure the link from one of its NICs.
pub(crate) fn have_measured(
    control: SocketAddr,
    (nic, address): (&str, IpAddr),
    to: SocketAddr,
    frame_bytes: u32,
    plan: LinkPlan,
) -> Result<LinkReadings, MeshError> {
    let request = MeshRequest::Measure { nic: nic.to_owned(), address, to, frame_bytes, plan };
    patiently(|| {
        let stream = TcpStream::connect_timeout(&control, CONNECT_DEADLINE)
            .map_err(|cause| MeshError::Connect { to: control, cause })?;
        let caller = MeshCaller { stream, to: control };
        match caller.ask(&request, BUSY_DEADLINE + SESSION_DEADLINE)? {
            MeshAnswer::Measured(readings) => Ok(Ok(*readings)),
            MeshAnswer::Failed { reason } => Err(MeshError::Failed(reason)),
            MeshAnswer::Refused { reason, wait_ms: Some(wait) } => Ok(Err((wait, reason))),
            other => Err(caller.refusal(other)),
        }
    })
    .map_err(|late| late.into_error(control))
}

/// Measures the link from a NIC of this host to the server at `to`.
pub(crate) fn measure(
    (nic, address): (&str, IpAddr),
    to: SocketAddr,
    frame_bytes: u32,
    plan: LinkPlan,
) -> Result<LinkReadings, MeshError> {
    let from = (nic, address);
    let (caller, session, has_datagrams) = patiently(|| {
        let caller = MeshCaller::connect(from, to)?;
        match caller.ask(&MeshRequest::Open { plan }, ANSWER_DEADLINE)? {
            MeshAnswer::Opened { session, has_datagrams } => {
                Ok(Ok((caller, session, has_datagrams)))
            }
            MeshAnswer::Refused { reason, wait_ms: Some(wait) } => Ok(Err((wait, reason))),
            other => Err(caller.refusal(other)),
        }
    })
    .map_err(|late| late.into_error(to))?;
    let mut readings = caller.round_trips()?;
    let mut answered = DatagramTally::default();
    if has_datagrams && plan.probes > 0 {
        let round_trip = Duration::from_nanos(readings.round_trip_ns);
        let asked = probes(from, (to, session, round_trip), frame_bytes, plan.probes);
        (readings.frame_bytes, answered) = asked.unwrap_or_default();
    }
    let load = LoadCarrier { from, to, session, plan };
    let mut segments = [0, 0];
    if plan.load_ms > 0 {
        let meter = RateMeter::new(plan.load());
        let sent = load.carry(false, &meter)?;
        load.carry(true, &meter)?;
        readings.back = meter.rate();
        segments = sent;
    }
    let counts = caller.counts(plan)?;
    readings.there = counts.received;
    readings.segments = segments[0] + counts.sent_again[0];
    readings.segments_again = segments[1] + counts.sent_again[1];
    if readings.frame_bytes.is_some() {
        readings.probes = answered.sent;
        readings.lost_there = answered.sent.saturating_sub(counts.datagrams);
        readings.lost_back = counts.datagrams.saturating_sub(answered.answered);
    }
    Ok(readings)
}

/// Why a server was never free.
enum NeverFree {
    Busy(String),
    Broken(MeshError),
}

impl NeverFree {
    fn into_error(self, to: SocketAddr) -> MeshError {
        match self {
            Self::Busy(reason) => MeshError::Refused { to, reason },
            Self::Broken(error) => error,
        }
    }
}

/// Tries until the server is free: it says how long to wait, in milliseconds, and why.
fn patiently<T>(
    mut attempt: impl FnMut() -> Result<Result<T, (u64, String)>, MeshError>,
) -> Result<T, NeverFree> {
    let until = Instant::now() + BUSY_DEADLINE;
    loop {
        let (wait_ms, reason) = match attempt().map_err(NeverFree::Broken)? {
            Ok(found) => return Ok(found),
            Err(busy) => busy,
        };
        let pause = Duration::from_millis(wait_ms).max(BUSY_PAUSE);
        if Instant::now() + pause > until {
            return Err(NeverFree::Busy(reason));
        }
        std::thread::sleep(pause);
    }
}

/// Largest frame and losses.
fn probes(
    (nic, address): (&str, IpAddr),
    (to, session, round_trip): (SocketAddr, u64, Duration),
    frame_bytes: u32,
    count: u32,
) -> io::Result<(Option<u32>, DatagramTally)> {
    let socket = datagrams(Some(nic), address, 0)?;
    socket.connect(to)?;
    let asker = DatagramProbe { socket, session, round_trip };
    let largest = asker.largest_frame(frame_bytes);
    let answered = match largest {
        Some(_) => asker.losses(count),
        None => DatagramTally::default(),
    };
    Ok((largest, answered))
}

/// A connection on which questions are asked.
struct MeshCaller {
    stream: TcpStream,
    to: SocketAddr,
}

impl MeshCaller {
    fn connect((nic, address): (&str, IpAddr), to: SocketAddr) -> Result<Self, MeshError> {
        let stream = connect(nic, address, to, CONNECT_DEADLINE)
            .map_err(|cause| MeshError::Connect { to, cause })?;
        Ok(Self { stream, to })
    }

    fn ask(&self, request: &MeshRequest, limit: Duration) -> Result<MeshAnswer, MeshError> {
        let broken = |cause| MeshError::Answer { to: self.to, cause };
        say(&self.stream, request).map_err(broken)?;
        let answer = hear(&self.stream, limit).map_err(broken)?;
        answer.ok_or_else(|| broken(io::ErrorKind::UnexpectedEof.into()))
    }

    fn refusal(&self, answer: MeshAnswer) -> MeshError {
        let reason = match answer {
            MeshAnswer::Refused { reason, .. } | MeshAnswer::Failed { reason } => reason,
            _ => "it answers something else; run the same release on all hosts".to_owned(),
        };
        MeshError::Refused { to: self.to, reason }
    }

    /// Round trips of small messages, one at a time.
    fn round_trips(&self) -> Result<LinkReadings, MeshError> {
        match self.ask(&MeshRequest::Echo, ANSWER_DEADLINE)? {
            MeshAnswer::Go => {}
            other => return Err(self.refusal(other)),
        }
        let broken = |cause| MeshError::Answer { to: self.to, cause };
        let mut taken = self.exchange().map_err(broken)?;
        taken.sort_unstable();
        let at = |part: usize| taken[(taken.len() - 1) * part / 100].as_nanos() as u64;
        Ok(LinkReadings {
            round_trip_ns: at(50),
            round_trip_min_ns: at(0),
            round_trip_p99_ns: at(99),
            ..LinkReadings::default()
        })
    }

    fn exchange(&self) -> io::Result<Vec<Duration>> {
        self.stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        let (mut stream, begun) = (&self.stream, Instant::now());
        let mut taken = Vec::with_capacity(ROUND_TRIPS_MAX);
        loop {
            let is_last = taken.len() + 1 == ROUND_TRIPS_MAX || begun.elapsed() > ROUND_TRIPS_TIME;
            let mut bytes = [0u8; ECHO_BYTES];
            bytes[0] = if is_last { LAST_ECHO } else { 0 };
            let asked = Instant::now();
            stream.write_all(&bytes)?;
            stream.read_exact(&mut bytes)?;
            taken.push(asked.elapsed());
            if is_last {
                return Ok(taken);
            }
        }
    }

    fn counts(&self, plan: LinkPlan) -> Result<SessionCounts, MeshError> {
        let limit = plan.load() + LOAD_MARGIN * 2 + ANSWER_DEADLINE;
        match self.ask(&MeshRequest::Counts, limit)? {
            MeshAnswer::Counts(counts) => Ok(counts),
            other => Err(self.refusal(other)),
        }
    }
}

/// The load of a session.
struct LoadCarrier<'a> {
    from: (&'a str, IpAddr),
    to: SocketAddr,
    session: u64,
    plan: LinkPlan,
}

impl LoadCarrier<'_> {
    /// Carries load in one direction on all streams; what is read goes to the meter. Returns the
    /// segments sent, and sent again.
    fn carry(&self, is_read: bool, meter: &RateMeter) -> Result<[u64; 2], MeshError> {
        let request = MeshRequest::Stream { session: self.session, is_read };
        let streams = (0..self.plan.streams).map(|_| {
            let caller = MeshCaller::connect(self.from, self.to)?;
            match caller.ask(&request, ANSWER_DEADLINE)? {
                MeshAnswer::Go => Ok(caller.stream),
                other => Err(caller.refusal(other)),
            }
        });
        let streams = streams.collect::<Result<Vec<_>, _>>()?;
        let (load, mut segments) = (self.plan.load(), [0, 0]);
        std::thread::scope(|scope| {
            let threads = streams.iter().map(|stream| {
                scope.spawn(move || {
                    if is_read {
                        receive(stream, meter, load + LOAD_MARGIN);
                        return [0, 0];
                    }
                    send(stream, load)
                })
            });
            for thread in threads.collect::<Vec<_>>() {
                let one = thread.join().unwrap_or_default();
                segments[0] += one[0];
                segments[1] += one[1];
            }
        });
        Ok(segments)
    }
}
