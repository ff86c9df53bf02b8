//! The HTTP metadata service: Mooncake's, its Python one, or ours.
//!
//! Invariant: a record that the service refuses to replace is deleted first, so that an engine
//! that came back takes its name back; between the two another may write, so only our own service,
//! which knows conditions, gives a dead engine's name to exactly one of several. Only our own
//! service lets records expire; what a crash leaves behind in another is replaced by the next
//! engine of that name.

use super::backend::{EntryClaim, EntryState, MetadataBackend, PublishedEntry};
use super::web::{HttpAnswer, Web};
use crate::error::DiscoveryError;
use crate::settings::{DiscoverySettings, Secret};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use ureq::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use ureq::http::request::Builder;
use ureq::http::{HeaderValue, Method, Request};

/// What an escape is needed for in a query value.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Debug)]
pub(super) struct Http {
    /// Up to and with the path, for example `http://127.0.0.1:8080/metadata`.
    url: String,
    token: Secret,
    web: Web,
    /// How long records outlive this process.
    life: Duration,
    /// The service lets them expire.
    expires: AtomicBool,
}

/// A record as it was read.
struct HttpRecord {
    value: Vec<u8>,
    /// What tells this value from others; only our own service has tags.
    tag: Option<HeaderValue>,
}

/// When a record is to be written.
enum Only {
    Always,
    IfAbsent,
    /// If the record is still the one with this tag.
    IfTagged(HeaderValue),
}

/// Header with the lifetime of a record in seconds; a service that knows it repeats it.
const LIFE: &str = "perigee-life-seconds";

impl Http {
    pub(super) fn new(url: &str, settings: &DiscoverySettings) -> Result<Self, DiscoveryError> {
        Ok(Self {
            url: url.to_owned(),
            token: settings.http_token.clone(),
            web: Web::new(settings)?,
            life: settings.entry_life,
            expires: AtomicBool::new(false),
        })
    }

    fn request(&self, method: Method, key: &str) -> Builder {
        let key = utf8_percent_encode(key, ESCAPED);
        let request = Request::builder()
            .method(method)
            .uri(format!("{}?key={key}", self.url))
            .header("content-type", "application/json")
            .header(LIFE, self.life.as_secs());
        match self.token.reveal() {
            "" => request,
            token => request.header("authorization", format!("Bearer {token}")),
        }
    }

    /// The record, and its tag if the service has tags.
    fn read(&self, key: &str, until: Instant) -> Result<Option<HttpRecord>, String> {
        let request = self.request(Method::GET, key);
        let mut answer = self.web.call(request, Vec::new(), until)?;
        match answer.status {
            200 => Ok(Some(HttpRecord { tag: answer.headers.remove(ETAG), value: answer.body })),
            404 => Ok(None),
            _ => Err(unexpected(&answer)),
        }
    }

    /// Writes a record; false = the condition does not hold, or the service does not replace such
    /// records.
    fn write(&self, key: &str, value: &str, only: &Only, until: Instant) -> Result<bool, String> {
        let request = self.request(Method::PUT, key);
        let request = match only {
            Only::Always => request,
            Only::IfAbsent => request.header(IF_NONE_MATCH, "*"),
            Only::IfTagged(tag) => request.header(IF_MATCH, tag),
        };
        let answer = self.web.call(request, value.into(), until)?;
        match answer.status {
            200 => {
                let expires = answer.headers.contains_key(LIFE);
                self.expires.store(expires, Relaxed);
                Ok(true)
            }
            // Mooncake's services know no conditions; they answer 400 to a second record of a name.
            400 | 412 => Ok(false),
            _ => Err(unexpected(&answer)),
        }
    }

    /// Writes a record if there is none; false = another process was faster. A service that neither
    /// knows conditions nor refuses second records is asked which one it kept.
    fn write_absent(&self, key: &str, value: &str, until: Instant) -> Result<bool, String> {
        Ok(self.write(key, value, &Only::IfAbsent, until)?
            && (self.expires()
                || self.read(key, until)?.is_some_and(|stored| stored.value == value.as_bytes())))
    }

    fn delete(&self, key: &str, until: Instant) -> Result<(), String> {
        let request = self.request(Method::DELETE, key);
        let answer = self.web.call(request, Vec::new(), until)?;
        match answer.status {
            200 | 404 => Ok(()),
            _ => Err(unexpected(&answer)),
        }
    }
}

impl MetadataBackend for Http {
    fn expires(&self) -> bool {
        self.expires.load(Relaxed)
    }

    fn get(&self, key: &str, until: Instant) -> Result<Option<Vec<u8>>, String> {
        Ok(self.read(key, until)?.map(|stored| stored.value))
    }

    fn put(&self, key: &str, value: &str, until: Instant) -> Result<(), String> {
        if self.write(key, value, &Only::Always, until)? {
            return Ok(());
        }
        self.delete(key, until)?;
        match self.write(key, value, &Only::Always, until)? {
            true => Ok(()),
            false => Err("it does not take the record".to_owned()),
        }
    }

    fn claim(&self, claim: &EntryClaim<'_>, until: Instant) -> Result<bool, String> {
        let EntryClaim { key, value, seen } = *claim;
        match (self.read(key, until)?, seen) {
            (None, _) => self.write_absent(key, value, until),
            (Some(stored), Some(seen)) if stored.value == seen => match stored.tag {
                Some(tag) => self.write(key, value, &Only::IfTagged(tag), until),
                None => {
                    self.delete(key, until)?;
                    self.write_absent(key, value, until)
                }
            },
            (Some(_), _) => Ok(false),
        }
    }

    fn refresh(&self, entry: &PublishedEntry, until: Instant) -> Result<EntryState, String> {
        let held = |kept, held| if kept { held } else { EntryState::Lost };
        match self.read(&entry.key, until)? {
            Some(stored) if !entry.wrote(&stored.value) => Ok(EntryState::Lost),
            Some(stored) if self.expires() => {
                let only = stored.tag.map_or(Only::Always, Only::IfTagged);
                let kept = self.write(&entry.key, &entry.value, &only, until)?;
                Ok(held(kept, EntryState::Kept))
            }
            Some(_) => Ok(EntryState::Kept),
            None => {
                let written = self.write_absent(&entry.key, &entry.value, until)?;
                Ok(held(written, EntryState::Restored))
            }
        }
    }

    fn remove(&self, entry: &PublishedEntry, until: Instant) -> Result<(), String> {
        match self.read(&entry.key, until)? {
            Some(stored) if entry.wrote(&stored.value) => self.delete(&entry.key, until),
            _ => Ok(()),
        }
    }
}

fn unexpected(answer: &HttpAnswer) -> String {
    match answer.status {
        404 | 405 => format!("it answered {}; the address should end in /metadata", answer.status),
        401 | 403 => format!(
            "it answered {} ({}); set MC_METADATA_HTTP_TOKEN",
            answer.status,
            answer.words()
        ),
        status => format!("it answered {status} ({})", answer.words()),
    }
}
