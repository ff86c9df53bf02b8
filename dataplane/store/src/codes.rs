//! Calls as clients in other languages make them: pieces that may be wrong in, an integer per key
//! out. Invariant: results come in the order of the keys, and an object that is wrong is the
//! verdict on its own key only.

use crate::api::{CallerRange, GetRequest, PutRequest, ReplicateConfig, WriteForm};
use crate::client::Store;
use perigee_schemas::Status;
use std::sync::Once;

impl Store {
    /// Whether calls that copy through the local buffer are allowed. The log says it once if not.
    pub fn copies(&self) -> bool {
        static SAID: Once = Once::new();
        let may_copy = self.config().local_buffer_bytes > 0;
        if !may_copy {
            SAID.call_once(|| {
                tracing::warn!(
                    "local_buffer_size is 0: calls that copy store nothing (-600) and find nothing. Give the store a local \
                     buffer, or use the calls on registered memory"
                );
            });
        }
        may_copy
    }

    /// Stores one object per key; 0 or a negative code each.
    pub fn write_codes<P: AsRef<[CallerRange]>>(
        &self,
        keys: &[&str],
        objects: &[Result<P, Status>],
        groups: &[Option<&str>],
        config: &ReplicateConfig,
        form: WriteForm,
    ) -> Vec<i32> {
        if keys.len() != objects.len() || keys.len() != groups.len() {
            return vec![Status::InvalidParams.code(); keys.len()];
        }
        let mut codes = vec![Status::Ok.code(); keys.len()];
        let mut positions = Vec::with_capacity(keys.len());
        let mut requests = Vec::with_capacity(keys.len());
        for (index, ((&key, object), &group)) in keys.iter().zip(objects).zip(groups).enumerate() {
            match object {
                Ok(pieces) => {
                    positions.push(index);
                    requests.push(PutRequest { key, pieces: pieces.as_ref(), group });
                }
                Err(status) => codes[index] = status.code(),
            }
        }
        if !requests.is_empty() {
            let statuses = self.write(&requests, config, form);
            // A key left out would pass for one that was stored.
            assert_eq!(statuses.len(), positions.len(), "one status per object");
            for (position, status) in positions.into_iter().zip(statuses) {
                codes[position] = status.code();
            }
        }
        codes
    }

    /// Reads one object per key; bytes read or a negative code each.
    pub fn get_codes<P: AsRef<[CallerRange]>>(
        &self,
        keys: &[&str],
        objects: &[Result<P, Status>],
    ) -> Vec<i64> {
        if keys.len() != objects.len() {
            return vec![i64::from(Status::InvalidParams.code()); keys.len()];
        }
        let mut results = vec![0; keys.len()];
        let mut positions = Vec::with_capacity(keys.len());
        let mut requests = Vec::with_capacity(keys.len());
        for (index, (&key, object)) in keys.iter().zip(objects).enumerate() {
            match object {
                Ok(pieces) => {
                    positions.push(index);
                    requests.push(GetRequest { key, pieces: pieces.as_ref() });
                }
                Err(status) => results[index] = i64::from(status.code()),
            }
        }
        if !requests.is_empty() {
            let found = self.get(&requests);
            assert_eq!(found.len(), positions.len(), "one result per object");
            for (position, result) in positions.into_iter().zip(found) {
                results[position] = count_or_code(result);
            }
        }
        results
    }

    /// 1, 0 or a negative code per key.
    pub fn exist_codes(&self, keys: &[&str]) -> Vec<i32> {
        let exist = self.exist(keys).into_iter();
        exist.map(|result| result.map_or_else(Status::code, i32::from)).collect()
    }

    /// 1, 0 or a negative code.
    pub fn exists_code(&self, key: &str) -> i32 {
        self.exists(key).map_or_else(Status::code, i32::from)
    }
}

/// A count, or the negative code of a failure.
pub fn count_or_code(result: Result<u64, Status>) -> i64 {
    match result {
        Ok(count) => i64::try_from(count).unwrap_or(i64::MAX),
        Err(status) => i64::from(status.code()),
    }
}
