//! The records. Invariant: the byte total is exactly the sum over all records, and stays within
//! its limit; a record whose life has ended is not seen any more, not by conditions either.

use crate::limits::{LIFE_MAX, RECORDS_MAX, SWEEP_INTERVAL, TOTAL_BYTES_MAX};
use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The record is new or has a new body.
    Updated,
    /// The record had this body already.
    Unchanged,
}

/// When a write is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// In any case.
    Always,
    /// If there is no record of this name.
    Absent,
    /// If the record's body is the one with this tag.
    Tagged(u64),
}

/// Why a write did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRefusal {
    /// There are too many records or bytes.
    Full,
    /// The condition does not hold.
    Condition,
}

/// All records, shared between the HTTP thread and clean-up. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct MetadataStore {
    records: Arc<Mutex<Records>>,
}

#[derive(Debug, Default)]
struct Records {
    records: HashMap<Vec<u8>, StoredRecord>,
    total_bytes: usize,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct StoredRecord {
    body: Arc<[u8]>,
    /// None = lives until it is removed.
    ends: Option<Instant>,
}

impl StoredRecord {
    fn lives(&self, now: Instant) -> bool {
        self.ends.is_none_or(|ends| now < ends)
    }
}

impl Records {
    fn remove(&mut self, key: &[u8]) -> Option<StoredRecord> {
        let removed = self.records.remove(key)?;
        self.total_bytes -= key.len() + removed.body.len();
        Some(removed)
    }

    fn holds(&self, key: &[u8], condition: Condition, now: Instant) -> bool {
        let found = self.records.get(key).filter(|record| record.lives(now));
        match condition {
            Condition::Always => true,
            Condition::Absent => found.is_none(),
            Condition::Tagged(tag) => {
                found.is_some_and(|record| self.records.hasher().hash_one(&*record.body) == tag)
            }
        }
    }

    /// Removes what has ended, if that was not done a moment ago.
    fn sweep(&mut self, now: Instant) {
        let recent = |swept: Instant| now.duration_since(swept) < SWEEP_INTERVAL;
        if self.swept.is_some_and(recent) {
            return;
        }
        self.swept = Some(now);
        let total_bytes = &mut self.total_bytes;
        self.records.retain(|key, record| {
            let lives = record.lives(now);
            if !lives {
                *total_bytes -= key.len() + record.body.len();
            }
            lives
        });
    }
}

impl MetadataStore {
    /// Body of a record.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Arc<[u8]>> {
        let now = Instant::now();
        let records = self.lock();
        let record = records.records.get(key)?;
        record.lives(now).then(|| Arc::clone(&record.body))
    }

    /// What tells a body from others, for as long as this store lives.
    #[must_use]
    pub fn tag(&self, body: &[u8]) -> u64 {
        self.lock().records.hasher().hash_one(body)
    }

    /// Writes a record if the condition holds; the last body wins. With a life (at most
    /// [`LIFE_MAX`]), the record is gone when it was not written again for that long.
    ///
    /// # Errors
    /// The condition does not hold, or there are too many records or bytes.
    pub fn put(
        &self,
        key: Vec<u8>,
        body: &[u8],
        life: Option<Duration>,
        condition: Condition,
    ) -> Result<Change, WriteRefusal> {
        let now = Instant::now();
        let ends = life.map(|life| now + life.min(LIFE_MAX));
        let mut records = self.lock();
        records.sweep(now);
        if !records.holds(&key, condition, now) {
            return Err(WriteRefusal::Condition);
        }
        let count = records.records.len();
        let old_bytes = match records.records.get_mut(&key) {
            Some(old) if *old.body == *body => {
                old.ends = ends;
                return Ok(Change::Unchanged);
            }
            Some(old) => key.len() + old.body.len(),
            None if count >= RECORDS_MAX => return Err(WriteRefusal::Full),
            None => 0,
        };
        let total_bytes = records.total_bytes - old_bytes + key.len() + body.len();
        if total_bytes > TOTAL_BYTES_MAX {
            return Err(WriteRefusal::Full);
        }
        records.total_bytes = total_bytes;
        let body = body.into();
        records.records.insert(key, StoredRecord { body, ends });
        Ok(Change::Updated)
    }

    /// Removes a record; true when there was one.
    pub fn remove(&self, key: &[u8]) -> bool {
        let removed = self.lock().remove(key);
        removed.is_some_and(|record| record.lives(Instant::now()))
    }

    /// Removes the segment and address records of a client that expired, by segment name;
    /// `cluster` is the extra path part of record names, empty for none. Returns how many there
    /// were.
    pub fn remove_client(&self, cluster: &str, segment_name: &str) -> usize {
        let keys = client_keys(cluster, segment_name);
        keys.iter().filter(|key| self.remove(key.as_bytes())).count()
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        let now = Instant::now();
        let records = self.lock();
        let lives = |record: &&StoredRecord| record.lives(now);
        records.records.values().filter(lives).count()
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
        assert_eq!(store.put(b"a".to_vec(), b"12", None, Condition::Always), Ok(Change::Updated));
        assert_eq!(store.put(b"a".to_vec(), b"12", None, Condition::Always), Ok(Change::Unchanged));
        assert_eq!(store.put(b"a".to_vec(), b"345", None, Condition::Always), Ok(Change::Updated));
        assert_eq!(store.get(b"a").as_deref(), Some(&b"345"[..]));
        assert_eq!(store.lock().total_bytes, 4);
        assert!(store.remove(b"a") && !store.remove(b"a"));
        assert!(store.is_empty());
        assert_eq!(store.lock().total_bytes, 0);
    }

    #[test]
    fn a_full_store_refuses_new_bytes_and_keeps_the_old() {
        let store = MetadataStore::default();
        store.put(b"a".to_vec(), b"1", None, Condition::Always).unwrap();
        store.lock().total_bytes = TOTAL_BYTES_MAX - 1;
        assert_eq!(
            store.put(b"bb".to_vec(), b"2", None, Condition::Always),
            Err(WriteRefusal::Full)
        );
        assert_eq!(store.put(b"a".to_vec(), b"2", None, Condition::Always), Ok(Change::Updated));
    }

    #[test]
    fn a_record_whose_life_has_ended_is_gone_with_its_bytes() {
        let store = MetadataStore::default();
        let ended = Some(Duration::ZERO);
        store.put(b"a".to_vec(), b"1", ended, Condition::Always).unwrap();
        store.put(b"b".to_vec(), b"2", Some(LIFE_MAX), Condition::Always).unwrap();
        assert_eq!((store.get(b"a"), store.len()), (None, 1));
        assert!(!store.remove(b"a"));
        store.put(b"a".to_vec(), b"1", ended, Condition::Always).unwrap();
        store.lock().swept = None;
        store.put(b"c".to_vec(), b"3", None, Condition::Always).unwrap();
        assert_eq!(store.lock().total_bytes, 4);
    }

    #[test]
    fn the_same_body_again_gives_a_record_new_life() {
        let store = MetadataStore::default();
        let ended = Some(Duration::ZERO);
        store.put(b"a".to_vec(), b"1", ended, Condition::Always).unwrap();
        store.lock().swept = Some(Instant::now() + LIFE_MAX);
        assert_eq!(store.put(b"a".to_vec(), b"1", None, Condition::Always), Ok(Change::Unchanged));
        assert!(store.get(b"a").is_some());
    }

    #[test]
    fn a_write_with_a_condition_happens_only_while_it_holds() {
        let store = MetadataStore::default();
        let put = |body: &[u8], condition| store.put(b"a".to_vec(), body, None, condition);
        let tagged = Condition::Tagged(store.tag(b"1"));
        assert_eq!(put(b"1", tagged), Err(WriteRefusal::Condition));
        assert_eq!(put(b"1", Condition::Absent), Ok(Change::Updated));
        assert_eq!(put(b"2", Condition::Absent), Err(WriteRefusal::Condition));
        assert_eq!(put(b"2", tagged), Ok(Change::Updated));
        assert_eq!(put(b"3", tagged), Err(WriteRefusal::Condition));
        assert_eq!(store.get(b"a").as_deref(), Some(&b"2"[..]));
        let ended = Some(Duration::ZERO);
        store.put(b"b".to_vec(), b"1", ended, Condition::Always).unwrap();
        let again = store.put(b"b".to_vec(), b"2", None, Condition::Absent);
        assert_eq!(again, Ok(Change::Updated), "what has ended is absent");
    }

    #[test]
    fn both_records_of_an_expired_client_go() {
        let store = MetadataStore::default();
        for key in ["mooncake/ram/h:1", "mooncake/rpc_meta/h:1", "mooncake/ram/h:2"] {
            store.put(key.into(), b"{}", None, Condition::Always).unwrap();
        }
        assert_eq!(store.remove_client("", "h:1"), 2);
        assert_eq!(store.remove_client("", "h:1"), 0);
        assert_eq!(store.len(), 1);
        assert_eq!(client_keys("east/", "h:1")[0], "mooncake/east/ram/h:1");
    }
}
