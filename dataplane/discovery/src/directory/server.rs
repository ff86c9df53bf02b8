//! The metadata server that a setting names, with the name it has in errors.
//! Invariant: no password is shown.

use super::backend::{EntryClaim, EntryState, MetadataBackend, PublishedEntry};
use super::etcd::Etcd;
use super::http::Http;
use super::redis::Redis;
use crate::error::DiscoveryError;
use crate::settings::DiscoverySettings;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// A backend with the name it has in errors.
#[derive(Debug)]
pub(crate) struct NamedBackend {
    shown: String,
    limit: Duration,
    backend: Box<dyn MetadataBackend>,
}

impl NamedBackend {
    /// The server a string names: `http://`, `https://`, `etcd://`, `redis://`, or a bare
    /// `host:port` list, which is etcd's as in Mooncake.
    pub(super) fn open(given: &str, settings: &DiscoverySettings) -> Result<Self, DiscoveryError> {
        let unknown = || DiscoveryError::UnknownScheme { given: without_password(given) };
        let (scheme, rest) = given.split_once("://").unwrap_or(("etcd", given));
        let backend: Option<Box<dyn MetadataBackend>> = match scheme {
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

    /// The error of a call that waited for another one until its own deadline.
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
        claim: &EntryClaim<'_>,
        until: Instant,
    ) -> Result<bool, DiscoveryError> {
        self.named(self.backend.claim(claim, until))
    }

    pub(super) fn refresh(
        &self,
        entry: &PublishedEntry,
        until: Instant,
    ) -> Result<EntryState, DiscoveryError> {
        self.named(self.backend.refresh(entry, until))
    }

    pub(super) fn remove(
        &self,
        entry: &PublishedEntry,
        until: Instant,
    ) -> Result<(), DiscoveryError> {
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
        result.map_err(|reason| DiscoveryError::Backend { server: self.shown.clone(), reason })
    }
}

/// The string with `***` where a password stands.
pub(crate) fn without_password(given: &str) -> String {
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

    fn open(given: &str) -> Result<NamedBackend, DiscoveryError> {
        NamedBackend::open(given, &DiscoverySettings::default())
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
        for given in
            ["", "zookeeper://h:1", "http://", "etcd://", "redis://", "etcd://a b", "p2p handshake"]
        {
            let text = open(given).unwrap_err().to_string();
            assert!(text.contains("etcd://host:2379"), "{text}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(open("redis://me:se@cret@h:1").unwrap().shown(), "redis://me:***@h:1");
        let text = open("mysql://me:secret@h:1").unwrap_err().to_string();
        assert!(!text.contains("secret"), "{text}");
    }
}
