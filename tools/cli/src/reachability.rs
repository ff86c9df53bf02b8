//! Whether the data ports of segments can be reached from here. Invariant: bounded threads, and all
//! tries end soon after the given deadline; nothing is sent to a port.

use crate::limits::{REACH_DEADLINE, REACH_THREADS_MAX};
use perigee_rpc::SegmentUse;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Tries the endpoint of each segment; `None` for one that answers, else why it does not, in words.
/// Tries begin before `until`.
pub(crate) fn try_all(segments: &[SegmentUse], until: Instant) -> Vec<Option<String>> {
    let untried = Some("there was no time to try it; give a longer --timeout".to_owned());
    let answers = Mutex::new(vec![untried; segments.len()]);
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = segments.get(index).filter(|_| Instant::now() < until) else {
                return;
            };
            let answer = obstacle(&one.segment.endpoint);
            answers.lock().unwrap_or_else(PoisonError::into_inner)[index] = answer;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..segments.len().min(REACH_THREADS_MAX) {
            scope.spawn(work);
        }
    });
    answers.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Why nothing answers at `host:port`.
fn obstacle(endpoint: &str) -> Option<String> {
    let found = match endpoint.to_socket_addrs() {
        Ok(mut found) => found.next(),
        Err(error) => return Some(format!("its name cannot be resolved: {error}")),
    };
    let Some(address) = found else {
        return Some("its name has no address".to_owned());
    };
    let connected = TcpStream::connect_timeout(&address, REACH_DEADLINE);
    connected.err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn only_endpoints_with_a_listener_are_reached() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert_eq!(obstacle(&address), None);
        drop(listener);
        assert!(obstacle(&address).unwrap().contains("refused"));
        assert!(obstacle("no-such-host.invalid:1").unwrap().contains("resolved"));
        assert!(obstacle("no port").is_some());
    }

    #[test]
    fn each_segment_has_its_own_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut segments = crate::status::samples();
        segments[0].segment.endpoint = "no-such-host.invalid:1".to_owned();
        segments[1].segment.endpoint = listener.local_addr().unwrap().to_string();
        let answers = try_all(&segments, Instant::now() + Duration::from_secs(600));
        assert!(answers[0].is_some() && answers[1].is_none(), "{answers:?}");
        let late = try_all(&segments, Instant::now());
        assert!(late.iter().flatten().all(|reason| reason.contains("--timeout")), "{late:?}");
    }
}
