//! The records. Invariant: the byte total is exactly the sum over all records, and stays within
//! its limit.

use crate::limits::{RECORDS_MAX, TOTAL_BYTES_MAX};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The record is new or has a new body.
    Updated,
    /// The record had this body already.
    Unchanged,
}

/// A write refused because the service is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreFull;

/// All records, shared between the HTTP thread and clean-up. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct MetadataStore {
    records: Arc<Mutex<Records>>,
}

#[derive(Debug, Default)]
struct Records {
    bodies: HashMap<Vec<u8>, Arc<[u8]>>,
    total_bytes: usize,
}

impl MetadataStore {
    /// Body of a record.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Arc<[u8]>> {
        self.lock().bodies.get(key).cloned()
    }

    /// Writes a record; the last body wins.
    ///
    /// # Errors
    /// There are too many records or bytes.
    pub fn put(&self, key: Vec<u8>, body: &[u8]) -> Result<Change, StoreFull> {
        let mut records = self.lock();
        let old_bytes = match records.bodies.get(&key) {
            Some(old) if **old == *body => return Ok(Change::Unchanged),
            Some(old) => key.len() + old.len(),
            None if records.bodies.len() >= RECORDS_MAX => return Err(StoreFull),
            None => 0,
        };
        let total_bytes = records.total_bytes - old_bytes + key.len() + body.len();
        if total_bytes > TOTAL_BYTES_MAX {
            return Err(StoreFull);
        }
        records.total_bytes = total_bytes;
        records.bodies.insert(key, body.into());
        Ok(Change::Updated)
    }

    /// Removes a record; true when there was one.
    pub fn remove(&self, key: &[u8]) -> bool {
        let mut records = self.lock();
        let removed = records.bodies.remove(key);
        if let Some(body) = &removed {
            records.total_bytes -= key.len() + body.len();
        }
        removed.is_some()
    }

    /// Removes the segment and address records of a client that expired, by segment name;
    /// `cluster` is the extra path part of record names, empty for none. Returns how many there
    /// were.
    pub fn remove_client(&self, cluster: &str, segment_name: &str) -> usize {
        let keys = client_keys(cluster, segment_name);
        keys.iter()
            .filter(|key| self.remove(key.as_bytes()))
            .count()
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().bodies.len()
    }

    /// True without records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// No code between lock and unlock can leave the records half changed, so a poisoned lock is
    /// as good as a sound one.
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names of the two records a client registers for a segment.
pub(crate) fn client_keys(cluster: &str, segment_name: &str) -> [String; 2] {
    let root = match cluster.trim_matches('/') {
        "" => "mooncake".to_owned(),
        cluster => format!("mooncake/{cluster}"),
    };
    ["ram", "rpc_meta"].map(|kind| format!("{root}/{kind}/{segment_name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_body_wins_and_bytes_are_counted() {
        let store = MetadataStore::default();
        assert_eq!(store.put(b"a".to_vec(), b"12"), Ok(Change::Updated));
        assert_eq!(store.put(b"a".to_vec(), b"12"), Ok(Change::Unchanged));
        assert_eq!(store.put(b"a".to_vec(), b"345"), Ok(Change::Updated));
        assert_eq!(store.get(b"a").as_deref(), Some(&b"345"[..]));
        assert_eq!(store.lock().total_bytes, 4);
        assert!(store.remove(b"a") && !store.remove(b"a"));
        assert!(store.is_empty());
        assert_eq!(store.lock().total_bytes, 0);
    }

    #[test]
    fn a_full_store_refuses_new_bytes_and_keeps_the_old() {
        let store = MetadataStore::default();
        store.put(b"a".to_vec(), b"1").unwrap();
        store.lock().total_bytes = TOTAL_BYTES_MAX - 1;
        assert_eq!(store.put(b"bb".to_vec(), b"2"), Err(StoreFull));
        assert_eq!(store.put(b"a".to_vec(), b"2"), Ok(Change::Updated));
    }

    #[test]
    fn both_records_of_an_expired_client_go() {
        let store = MetadataStore::default();
        for key in [
            "mooncake/ram/h:1",
            "mooncake/rpc_meta/h:1",
            "mooncake/ram/h:2",
        ] {
            store.put(key.into(), b"{}").unwrap();
        }
        assert_eq!(store.remove_client("", "h:1"), 2);
        assert_eq!(store.remove_client("", "h:1"), 0);
        assert_eq!(store.len(), 1);
        assert_eq!(client_keys("east/", "h:1")[0], "mooncake/east/ram/h:1");
    }
}
