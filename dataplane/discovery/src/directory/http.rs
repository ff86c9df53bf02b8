//! The HTTP metadata service: Mooncake's, its Python one, or ours.
//!
//! Invariant: a record that the service refuses to replace is deleted first, so that an engine
//! that came back takes its name back. Only our own service lets records expire; what a crash
//! leaves behind in another is replaced by the next engine of that name.

use super::backend::{Backend, Entry, Held};
use super::web::{Answer, Web};
use crate::error::DiscoveryError;
use crate::settings::{Secret, Settings};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use ureq::http::{Method, Request};

/// What an escape is needed for in a query value.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

#[derive(Debug)]
pub(super) struct Http {
    /// Up to and with the path, for example `http://127.0.0.1:8080/metadata`.
    url: String,
    token: Secret,
    limit: Duration,
    web: Web,
    /// How long records shall outlive this process.
    life: Duration,
    /// The service lets them expire.
    expires: AtomicBool,
}

/// Header with the life of a record in seconds; a service that knows it repeats it.
const LIFE: &str = "perigee-life-seconds";

impl Http {
    pub(super) fn new(url: &str, settings: &Settings) -> Result<Self, DiscoveryError> {
        Ok(Self {
            url: url.to_owned(),
            token: settings.http_token.clone(),
            limit: settings.call_deadline,
            web: Web::new(settings)?,
            life: settings.entry_life,
            expires: AtomicBool::new(false),
        })
    }

    fn call(&self, method: Method, key: &str, body: &str) -> Result<Answer, String> {
        self.call_within(method, key, body, self.limit)
    }

    fn call_within(
        &self,
        method: Method,
        key: &str,
        body: &str,
        limit: Duration,
    ) -> Result<Answer, String> {
        let key = utf8_percent_encode(key, ESCAPED);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}?key={key}", self.url))
            .header("content-type", "application/json")
            .header(LIFE, self.life.as_secs());
        if !self.token.reveal().is_empty() {
            let token = format!("Bearer {}", self.token.reveal());
            request = request.header("authorization", token);
        }
        self.web
            .call(request, body.as_bytes().to_vec(), limit.min(self.limit))
    }

    fn delete(&self, key: &str) -> Result<(), String> {
        let answer = self.call(Method::DELETE, key, "")?;
        match answer.status {
            200 | 404 => Ok(()),
            _ => Err(unexpected(&answer)),
        }
    }
}

impl Backend for Http {
    fn expires(&self) -> bool {
        self.expires.load(Relaxed)
    }

    fn get(&self, key: &str, limit: Duration) -> Result<Option<Vec<u8>>, String> {
        let answer = self.call_within(Method::GET, key, "", limit)?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            404 => Ok(None),
            _ => Err(unexpected(&answer)),
        }
    }

    fn put(&self, key: &str, value: &str) -> Result<(), String> {
        let mut answer = self.call(Method::PUT, key, value)?;
        if answer.status == 400 {
            self.delete(key)?;
            answer = self.call(Method::PUT, key, value)?;
        }
        if answer.status != 200 {
            return Err(unexpected(&answer));
        }
        self.expires
            .store(answer.headers.contains_key(LIFE), Relaxed);
        Ok(())
    }

    fn refresh(&self, entry: &Entry) -> Result<Held, String> {
        match self.get(&entry.key, self.limit)? {
            Some(stored) if !entry.wrote(&stored) => Ok(Held::Lost),
            Some(_) if self.expires() => self.put(&entry.key, &entry.value).map(|()| Held::Kept),
            Some(_) => Ok(Held::Kept),
            None => self.put(&entry.key, &entry.value).map(|()| Held::Restored),
        }
    }

    fn remove(&self, entry: &Entry) -> Result<(), String> {
        match self.get(&entry.key, self.limit)? {
            Some(stored) if entry.wrote(&stored) => self.delete(&entry.key),
            _ => Ok(()),
        }
    }
}

fn unexpected(answer: &Answer) -> String {
    match answer.status {
        404 | 405 => format!(
            "it answered {}; the address should end in /metadata",
            answer.status
        ),
        401 | 403 => format!(
            "it answered {} ({}); set MC_METADATA_HTTP_TOKEN",
            answer.status,
            answer.words()
        ),
        status => format!("it answered {status} ({})", answer.words()),
    }
}
