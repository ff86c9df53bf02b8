//! Names of peers turned into addresses beside the shards: a slow resolver must not stop one.
//! Invariant: no wait lasts longer than the deadline, and a name is asked for by one thread at a
//! time.

use crate::error::PeerError;
use crate::limits::{NAME_FRESH, NAME_RETRY, NAMES_MAX, RESOLVERS_MAX};
use perigee_shard::{poll_interruption, wait_step};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type Resolver = dyn Fn(&str) -> io::Result<SocketAddr> + Send + Sync;

/// What is known of the names that peers are reached by.
pub struct Names {
    known: Mutex<HashMap<Arc<str>, CachedName>>,
    changed: Condvar,
    deadline: Duration,
    resolver: Box<Resolver>,
}

struct CachedName {
    /// The last answer, also while it is asked again.
    answer: Result<SocketAddr, String>,
    /// Until when the answer is not asked for again.
    fresh_until: Instant,
    asking: bool,
}

impl Names {
    /// Names that the system resolves; waits last at most `deadline`.
    pub fn new(deadline: Duration) -> Arc<Self> {
        Self::resolved_by(Box::new(system), deadline)
    }

    fn resolved_by(resolver: Box<Resolver>, deadline: Duration) -> Arc<Self> {
        Arc::new(Self { known: Mutex::default(), changed: Condvar::new(), deadline, resolver })
    }

    /// The address of `host:port` if it needs no waiting: it is an address itself, or was resolved
    /// before. An old answer is used while a new one is fetched.
    pub fn at_hand(self: &Arc<Self>, endpoint: &Arc<str>) -> Option<SocketAddr> {
        if let Ok(address) = endpoint.parse() {
            return Some(address);
        }
        let mut known = self.lock();
        self.refresh(&mut known, endpoint);
        known.get(endpoint)?.answer.clone().ok()
    }

    /// The address of `host:port`, after a bounded wait if it must be.
    ///
    /// # Errors
    /// The name has no address, or the resolver did not answer in time; or the caller of this
    /// thread breaks off.
    pub fn resolve(self: &Arc<Self>, endpoint: &Arc<str>) -> Result<SocketAddr, PeerError> {
        if let Some(address) = self.at_hand(endpoint) {
            return Ok(address);
        }
        let silent = |known: &mut HashMap<Arc<str>, CachedName>| {
            known.get(endpoint).is_some_and(|entry| entry.asking)
        };
        let end = Instant::now() + self.deadline;
        let mut known = self.lock();
        while silent(&mut known) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let reason = format!("its name was not resolved in {:?}", self.deadline);
                return Err(unresolved(endpoint, reason));
            }
            if poll_interruption() {
                return Err(PeerError::Canceled);
            }
            let waited = self.changed.wait_timeout(known, wait_step(left));
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let answer = match known.get(endpoint) {
            Some(entry) => entry.answer.clone(),
            None => Err("too many names are being resolved".to_owned()),
        };
        answer.map_err(|reason| unresolved(endpoint, reason))
    }

    /// Has a name asked for if nothing fresh is known of it.
    fn refresh(self: &Arc<Self>, known: &mut HashMap<Arc<str>, CachedName>, endpoint: &Arc<str>) {
        let now = Instant::now();
        if let Some(entry) = known.get(endpoint)
            && (entry.asking || entry.fresh_until > now)
        {
            return;
        }
        if known.values().filter(|entry| entry.asking).count() >= RESOLVERS_MAX {
            return;
        }
        if known.len() >= NAMES_MAX {
            known.retain(|_, entry| entry.asking);
        }
        let (names, asked) = (self.clone(), endpoint.clone());
        let started = std::thread::Builder::new()
            .name("perigee-names".to_owned())
            .spawn(move || names.ask(asked));
        let entry = known.entry(endpoint.clone()).or_insert_with(|| CachedName {
            answer: Err("its name is not resolved".to_owned()),
            fresh_until: now,
            asking: false,
        });
        match started {
            Ok(_) => entry.asking = true,
            Err(error) => entry.answer = Err(error.to_string()),
        }
    }

    fn ask(&self, endpoint: Arc<str>) {
        let answer = (self.resolver)(&endpoint).map_err(|error| error.to_string());
        let fresh = if answer.is_ok() { NAME_FRESH } else { NAME_RETRY };
        let entry = CachedName { answer, fresh_until: Instant::now() + fresh, asking: false };
        self.lock().insert(endpoint, entry);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, CachedName>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Names").finish_non_exhaustive()
    }
}

fn unresolved(endpoint: &str, reason: String) -> PeerError {
    PeerError::Unreachable { peer: endpoint.to_owned(), reason }
}

fn system(endpoint: &str) -> io::Result<SocketAddr> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    endpoint.to_socket_addrs()?.next().ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_shard::interruptible;
    use std::sync::mpsc::channel;

    const LONG: Duration = Duration::from_secs(60);

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_literal_address_needs_no_lookup() {
        let refuse = |_: &str| -> io::Result<SocketAddr> { panic!("it must not be asked") };
        let names = Names::resolved_by(Box::new(refuse), LONG);
        assert_eq!(names.at_hand(&"127.0.0.1:7".into()), Some(address(7)));
    }

    #[test]
    fn a_silent_resolver_costs_its_own_names_a_bounded_wait() {
        let (release, released) = channel::<()>();
        let released = Mutex::new(released);
        let resolver = move |endpoint: &str| {
            if endpoint.starts_with("slow") {
                let _ = released.lock().unwrap().recv();
            }
            Ok(address(9))
        };
        let names = Names::resolved_by(Box::new(resolver), Duration::from_millis(20));
        let slow: Arc<str> = "slow:1".into();
        let error = names.resolve(&slow).unwrap_err().to_string();
        assert!(error.contains("not resolved in"), "{error}");
        let quick: Arc<str> = "quick:1".into();
        while names.at_hand(&quick).is_none() {
            std::thread::yield_now();
        }
        assert_eq!(names.at_hand(&slow), None);
        release.send(()).unwrap();
        while names.at_hand(&slow).is_none() {
            std::thread::yield_now();
        }
        assert_eq!(names.resolve(&slow), Ok(address(9)));
    }

    #[test]
    fn a_name_without_address_is_an_error_that_is_remembered_for_a_while() {
        let (ask, asked) = channel();
        let ask = Mutex::new(ask);
        let resolver = move |_: &str| {
            ask.lock().unwrap().send(()).unwrap();
            Err(io::Error::other("no such name"))
        };
        let names = Names::resolved_by(Box::new(resolver), LONG);
        for _ in 0..3 {
            let unknown = unresolved("x:1", "no such name".to_owned());
            assert_eq!(names.resolve(&"x:1".into()), Err(unknown));
        }
        assert_eq!(asked.try_iter().count(), 1);
    }

    #[test]
    fn breaking_off_while_a_name_is_resolved_is_canceled() {
        let (release, released) = channel::<()>();
        let released = Mutex::new(released);
        let resolver = move |_: &str| {
            let _ = released.lock().unwrap().recv();
            Ok(address(9))
        };
        let names = Names::resolved_by(Box::new(resolver), LONG);
        let _breaks_off = interruptible(|| true);
        assert_eq!(names.resolve(&"slow:1".into()), Err(PeerError::Canceled));
        drop(release);
    }
}
