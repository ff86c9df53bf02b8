//! Load on connections, and its rate where it arrives. Invariant: both ends stop by themselves.

use crate::limits::PIECE_BYTES;
use crate::readings::LoadRate;
use crate::socket::segments;
use socket2::SockRef;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a stream that does not move looks at the clock.
const LOOK: Duration = Duration::from_millis(50);

/// Counts what arrives on all connections of a load.
#[derive(Debug)]
pub(crate) struct RateMeter {
    /// The beginning, in which connections find their pace.
    skip: Duration,
    counted: Mutex<MeteredLoad>,
}

#[derive(Debug, Default)]
struct MeteredLoad {
    first: Option<Instant>,
    last: Option<Instant>,
    bytes: u64,
}

impl RateMeter {
    /// Of a load of this length.
    pub(crate) fn new(load: Duration) -> Self {
        Self { skip: load / 4, counted: Mutex::default() }
    }

    fn count(&self, now: Instant, bytes: usize) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let first = *counted.first.get_or_insert(now);
        if now - first >= self.skip {
            counted.bytes += bytes as u64;
            counted.last = Some(now);
        }
    }

    /// `None` if nothing came at all.
    pub(crate) fn rate(&self) -> Option<LoadRate> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = counted.first? + self.skip;
        let time = counted.last.map_or(Duration::ZERO, |last| last - begin);
        // Less than this is one piece that came late.
        let time = time.max(self.skip);
        Some(LoadRate { bytes_per_second: counted.bytes as f64 / time.as_secs_f64().max(1e-9) })
    }
}

/// Sends for a time; returns the segments sent, and sent again. What is still in the queue is
/// dropped with the connection: on a thin wire it would keep it for long.
pub(crate) fn send(mut stream: &TcpStream, load: Duration) -> [u64; 2] {
    let until = Instant::now() + load;
    let piece = vec![0x5A; PIECE_BYTES];
    let _ = stream.set_write_timeout(Some(LOOK));
    while Instant::now() < until {
        match stream.write(&piece) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if is_late(error.kind()) => {}
            Err(_) => break,
        }
    }
    let segments = segments(stream);
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    segments
}

/// Takes what comes until the other end stops, or the time is over.
pub(crate) fn receive(mut stream: &TcpStream, meter: &RateMeter, limit: Duration) {
    let until = Instant::now() + limit;
    let mut piece = vec![0; PIECE_BYTES];
    let _ = stream.set_read_timeout(Some(LOOK));
    while Instant::now() < until {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(bytes) => meter.count(Instant::now(), bytes),
            Err(error) if is_late(error.kind()) => {}
            Err(_) => break,
        }
    }
}

fn is_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_load_does_not_count() {
        let meter = RateMeter::new(Duration::from_millis(400));
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(meter.rate(), None);
        meter.count(at(0), 1_000_000_000);
        meter.count(at(50), 1_000_000_000);
        meter.count(at(150), 1_000_000);
        meter.count(at(300), 1_000_000);
        assert_eq!(meter.rate(), Some(LoadRate { bytes_per_second: 10_000_000.0 }));
    }

    #[test]
    fn a_wire_on_which_only_the_beginning_comes_has_no_rate() {
        let meter = RateMeter::new(Duration::from_millis(400));
        meter.count(Instant::now(), 100);
        assert_eq!(meter.rate(), Some(LoadRate { bytes_per_second: 0.0 }));
    }
}
