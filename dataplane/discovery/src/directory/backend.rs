//! A metadata server: a map from keys to JSON, and the choice of its kind.
//! Invariant: each call ends by the deadline it is given, which the settings bound, and its error
//! names the server.

use std::fmt::Debug;
use std::time::Instant;

/// What became of an own entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    /// It is there.
    Kept,
    /// It was gone and is there again.
    Restored,
    /// Another process has replaced it.
    Lost,
}

/// An entry that this process wants to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryClaim<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    /// What was stored when it was decided; `None` if there was nothing.
    pub(super) seen: Option<&'a [u8]>,
}

/// An entry of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublishedEntry {
    pub(super) key: String,
    /// What was written last.
    pub(super) value: String,
    /// What was being written when the server failed; it may have arrived.
    pub(super) tried: Option<String>,
}

impl PublishedEntry {
    /// An entry whose value has arrived.
    pub(super) fn written(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), value: value.to_owned(), tried: None }
    }

    /// Whether a stored value is one that this process wrote.
    pub(super) fn wrote(&self, stored: &[u8]) -> bool {
        let tried = self.tried.as_ref().map(String::as_bytes);
        stored == self.value.as_bytes() || Some(stored) == tried
    }
}

/// One kind of metadata server. Errors are the reason alone; every call ends at `until`.
pub(super) trait MetadataBackend: Send + Sync + Debug {
    /// The value of a key.
    fn get(&self, key: &str, until: Instant) -> Result<Option<Vec<u8>>, String>;
    /// Writes a value unconditionally.
    fn put(&self, key: &str, value: &str, until: Instant) -> Result<(), String>;
    /// Writes an entry if the stored value is still the one that was seen; false = it is not.
    fn claim(&self, claim: &EntryClaim<'_>, until: Instant) -> Result<bool, String>;
    /// Makes sure that an own entry is there and goes on living.
    fn refresh(&self, entry: &PublishedEntry, until: Instant) -> Result<EntryState, String>;
    /// Removes an own entry, unless another process has replaced it.
    fn remove(&self, entry: &PublishedEntry, until: Instant) -> Result<(), String>;
    /// Whether entries vanish without renewals.
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
