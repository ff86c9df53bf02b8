//! Calls about keys that move no bytes, and about the client itself.

use super::ObjectStore;
use crate::error::ObjectError;
use crate::store::count;
use perigee_schemas::{Identity, Status};
use std::collections::BTreeMap;

impl ObjectStore {
    /// Whether an object can be read.
    ///
    /// # Errors
    /// The key cannot be one, or the master does not answer.
    pub fn exists(&self, key: &str) -> Result<bool, ObjectError> {
        self.raw().exists(key).map_err(|status| self.error(key, status))
    }

    /// Whether each object can be read.
    pub fn exists_batch(&self, keys: &[&str]) -> Vec<Result<bool, ObjectError>> {
        let answers = self.raw().exist(keys).into_iter().zip(keys);
        answers.map(|(there, key)| there.map_err(|status| self.error(key, status))).collect()
    }

    /// Bytes of an object.
    ///
    /// # Errors
    /// It is not there, or the master does not answer.
    pub fn size(&self, key: &str) -> Result<usize, ObjectError> {
        let size = self.raw().peek(&[key]).object(0);
        size.map_err(|status| self.error(key, status)).and_then(|bytes| count(key, bytes))
    }

    /// Random identity of this client, by which others may ask where its segments are.
    pub fn client_id(&self) -> Identity {
        self.raw().client_id()
    }

    /// Addresses of the hosts on which the segments of clients are; clients without segments have
    /// no entry. It is what Mooncake calls `BatchQueryIp`.
    ///
    /// # Errors
    /// The master does not answer.
    pub fn addresses_of(
        &self,
        clients: &[Identity],
    ) -> Result<BTreeMap<Identity, Vec<String>>, ObjectError> {
        self.raw().batch_query_ip(clients).map_err(|status| self.error("", status))
    }

    /// Removes an object; `force` does not wait for the leases of its readers.
    ///
    /// # Errors
    /// It is not there, a reader has a lease on it, or the master does not answer.
    pub fn remove(&self, key: &str, force: bool) -> Result<(), ObjectError> {
        self.only(key, self.remove_batch(&[key], force))
    }

    /// Removes several objects; the result of each.
    pub fn remove_batch(&self, keys: &[&str], force: bool) -> Vec<Result<(), ObjectError>> {
        let removed = self.raw().remove(keys, force).into_iter().zip(keys);
        let verdict =
            |(status, key): (Status, &&str)| status.ok().map_err(|status| self.error(key, status));
        removed.map(verdict).collect()
    }

    /// Removes the objects in whose keys a regular expression is found; how many.
    ///
    /// # Errors
    /// It is none, or the master does not answer.
    pub fn remove_matching(&self, pattern: &str, force: bool) -> Result<u64, ObjectError> {
        let removed = self.raw().remove_by_regex(pattern, force);
        removed.map_err(|status| self.error(pattern, status))
    }

    /// Keys in which a regular expression is found, at most `limit` of them, in no order. Objects
    /// that are put or removed during the call may be among them or not.
    ///
    /// # Errors
    /// It is none, or the master does not answer.
    pub fn keys_matching(&self, pattern: &str, limit: usize) -> Result<Vec<String>, ObjectError> {
        let found = self.raw().keys_by_regex(pattern, limit);
        found.map_err(|status| self.error(pattern, status))
    }

    /// Removes all objects of the cluster; how many.
    ///
    /// # Errors
    /// The master does not answer.
    pub fn remove_all(&self, force: bool) -> Result<u64, ObjectError> {
        self.raw().remove_all(force).map_err(|status| self.error("all objects", status))
    }

    /// Lends another segment of zeroed memory to the cluster, beside
    /// [`StoreConfig::global_segment_bytes`](crate::StoreConfig::global_segment_bytes).
    ///
    /// # Errors
    /// The memory cannot be allocated, or the master refuses it.
    pub fn lend(&self, bytes: u64) -> Result<(), ObjectError> {
        let mounted = self.raw().mount_segment(bytes, None);
        mounted.map(drop).map_err(|status| self.error("the segment", status))
    }

    /// `host:port` by which the cluster knows this client.
    #[must_use]
    pub fn name(&self) -> String {
        self.raw().hostname()
    }

    /// Whether it is open and its master answers.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.raw().health() == 0
    }

    /// Leaves the cluster; later calls answer [`ObjectFault::Closed`](crate::ObjectFault::Closed).
    /// The last clone does it when it is dropped.
    pub fn close(&self) {
        self.raw().close();
    }
}
