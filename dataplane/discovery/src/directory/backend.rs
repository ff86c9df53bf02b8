//! A metadata server: a map from keys to JSON, and the choice of its kind.
//! Invariant: each call ends by the deadline it is given, which the settings bound, and its error names the server.

use super::etcd::Etcd;
use super::http::Http;
use super::redis::Redis;
use crate::error::DiscoveryError;
use crate::settings::Settings;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// What became of an own entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// It is there.
    Kept,
    /// It was gone and is there again.
    Restored,
    /// Somebody else has put another one in its place.
    Lost,
}

/// An entry of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// What was written last.
    pub(super) value: String,
    /// What was being written when the server failed; it may have arrived.
    pub(super) tried: Option<String>,
}

impl Entry {
    /// An entry whose value has arrived.
    pub(super) fn written(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: value.to_owned(),
            tried: None,
        }
    }

    /// Whether a stored value is one that this process wrote.
    pub(super) fn wrote(&self, stored: &[u8]) -> bool {
        let tried = self.tried.as_ref().map(String::as_bytes);
        stored == self.value.as_bytes() || Some(stored) == tried
    }
}

/// One kind of metadata server. Errors are the reason alone; every call ends at `until`.
pub(super) trait Backend: Send + Sync + Debug {
    /// The value of a key.
    fn get(&self, key: &str, until: Instant) -> Result<Option<Vec<u8>>, String>;
    /// Writes a value, whoever wrote the one before.
    fn put(&self, key: &str, value: &str, until: Instant) -> Result<(), String>;
    /// Writes a value if the one before is still the one that was seen (`None`: there was none); false = it is not.
    fn claim(
        &self,
        key: &str,
        value: &str,
        seen: Option<&[u8]>,
        until: Instant,
    ) -> Result<bool, String>;
    /// Makes sure that an own entry is there and goes on living.
    fn refresh(&self, entry: &Entry, until: Instant) -> Result<Held, String>;
    /// Removes an own entry, unless somebody else's is in its place.
    fn remove(&self, entry: &Entry, until: Instant) -> Result<(), String>;
    /// Whether entries vanish without signs of life.
    fn expires(&self) -> bool {
        true
    }
    /// Called before the entries are refreshed.
    fn begin_beat(&self, _until: Instant) -> Result<(), String> {
        Ok(())
    }
    /// Called when the last own entry was removed.
    fn end(&self, _until: Instant) {}
}

/// A backend with the name it has in errors.
#[derive(Debug)]
pub(super) struct Server {
    shown: String,
    limit: Duration,
    backend: Box<dyn Backend>,
}

impl Server {
    /// The server a string names: `http://`, `https://`, `etcd://`, `redis://`, or a bare
    /// `host:port` list, which is etcd's as in Mooncake.
    pub(super) fn open(given: &str, settings: &Settings) -> Result<Self, DiscoveryError> {
        let unknown = || DiscoveryError::UnknownScheme {
            given: without_password(given),
        };
        let (scheme, rest) = given.split_once("://").unwrap_or(("etcd", given));
        let backend: Option<Box<dyn Backend>> = match scheme {
            "http" | "https" if !rest.is_empty() => Some(Box::new(Http::new(given, settings)?)),
            "etcd" => Etcd::new(rest, settings)?.map(|etcd| Box::new(etcd) as _),
            "redis" => Redis::new(given, settings).map(|redis| Box::new(redis) as _),
            _ => None,
        };
        Ok(Self {
            shown: without_password(given),
            limit: settings.call_deadline,
            backend: backend.ok_or_else(unknown)?,
        })
    }

    /// The server's address, without a password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// When a call that begins now, and may take so long, is over.
    pub(super) fn until(&self, limit: Duration) -> Instant {
        Instant::now() + limit.min(self.limit)
    }

    /// What a call says that waited in vain for another one.
    pub(super) fn busy(&self) -> DiscoveryError {
        DiscoveryError::Backend {
            server: self.shown.clone(),
            reason: format!("it did not answer within {:.1?}", self.limit),
        }
    }

    pub(super) fn get(&self, key: &str, until: Instant) -> Result<Option<Vec<u8>>, DiscoveryError> {
        self.named(self.backend.get(key, until))
    }

    pub(super) fn put(&self, key: &str, value: &str, until: Instant) -> Result<(), DiscoveryError> {
        self.named(self.backend.put(key, value, until))
    }

    pub(super) fn claim(
        &self,
        key: &str,
        value: &str,
        seen: Option<&[u8]>,
        until: Instant,
    ) -> Result<bool, DiscoveryError> {
        self.named(self.backend.claim(key, value, seen, until))
    }

    pub(super) fn refresh(&self, entry: &Entry, until: Instant) -> Result<Held, DiscoveryError> {
        self.named(self.backend.refresh(entry, until))
    }

    pub(super) fn remove(&self, entry: &Entry, until: Instant) -> Result<(), DiscoveryError> {
        self.named(self.backend.remove(entry, until))
    }

    pub(super) fn expires(&self) -> bool {
        self.backend.expires()
    }

    pub(super) fn begin_beat(&self, until: Instant) -> Result<(), DiscoveryError> {
        self.named(self.backend.begin_beat(until))
    }

    pub(super) fn end(&self, until: Instant) {
        self.backend.end(until);
    }

    fn named<T>(&self, result: Result<T, String>) -> Result<T, DiscoveryError> {
        result.map_err(|reason| DiscoveryError::Backend {
            server: self.shown.clone(),
            reason,
        })
    }
}

/// The string with `***` where a password stands.
fn without_password(given: &str) -> String {
    let Some((scheme, rest)) = given.split_once("://") else {
        return given.to_owned();
    };
    match rest.rsplit_once('@') {
        Some((credentials, host)) => {
            let user = credentials.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:***@{host}")
        }
        None => given.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(given: &str) -> Result<Server, DiscoveryError> {
        Server::open(given, &Settings::default())
    }

    #[test]
    fn all_of_mooncakes_strings_are_understood() {
        for given in [
            "http://127.0.0.1:8080/metadata",
            "https://meta:8443/metadata",
            "etcd://a:2379,b:2379",
            "etcd://https://a:2379,https://b:2379",
            "10.0.0.1:2379",
            "a:2379;b:2379",
            "redis://h:6379",
            "redis://user:pass@h",
        ] {
            assert!(open(given).is_ok(), "{given}");
        }
    }

    #[test]
    fn unknown_schemes_are_refused_with_the_list() {
        for given in [
            "",
            "zookeeper://h:1",
            "http://",
            "etcd://",
            "redis://",
            "etcd://a b",
            "p2p handshake",
        ] {
            let text = open(given).unwrap_err().to_string();
            assert!(text.contains("etcd://host:2379"), "{text}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(
            open("redis://me:se@cret@h:1").unwrap().shown(),
            "redis://me:***@h:1"
        );
        let text = open("mysql://me:secret@h:1").unwrap_err().to_string();
        assert!(!text.contains("secret"), "{text}");
    }
}
