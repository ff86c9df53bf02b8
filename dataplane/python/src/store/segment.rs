//! Replicas of objects, memory lent and withdrawn at run time, and the calls of tiers not built
//! yet. Invariant: a feature that is not there answers -1012 (NOT_SUPPORTED), never a made-up
//! success.

use super::{NOT_OPEN, StoreClient};
use crate::arguments::{Count, Key, Keys, borrow_keys};
use crate::descriptor::ReplicaDescriptor;
use crate::limits::MAX_GRACE_S;
use crate::session::StoreSession;
use crate::warning;
use perigee_engine::MemoryLocation;
use perigee_schemas::{Identity, Status};
use perigee_settings::Protocols;
use perigee_store::api;
use perigee_store::disks::SavedObjects;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::{Duration, Instant};

const MS_PER_S: u64 = 1000;
/// The calls that mount, in the table of Mooncake's words.
const MOUNTS: &str = "mount_segment, allocate_and_mount_segment";

fn parse_identities(texts: &Keys) -> Result<Vec<Identity>, Status> {
    texts
        .iter()
        .map(|text| {
            let digits = Some(text.as_bytes()).filter(|it| it.iter().all(u8::is_ascii_hexdigit));
            digits
                .and_then(|_| u128::from_str_radix(text, 16).ok())
                .map(Identity)
                .ok_or(Status::SegmentNotFound)
        })
        .collect()
}

/// The dict `{"ret": code, "segment_ids": [..]}` of a mount.
fn mounted(
    py: Python<'_>,
    result: Result<Vec<api::SegmentId>, Status>,
) -> PyResult<Bound<'_, PyDict>> {
    let (code, ids) = match result {
        Ok(ids) => (Status::Ok.code(), ids),
        Err(status) => (status.code(), Vec::new()),
    };
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let answer = PyDict::new(py);
    answer.set_item("ret", code)?;
    answer.set_item("segment_ids", ids)?;
    Ok(answer)
}

/// Seconds that a caller may ask for.
fn patience(seconds: f64) -> Option<Duration> {
    let patience = Duration::try_from_secs_f64(seconds).ok()?;
    (patience <= Duration::from_secs(MAX_GRACE_S)).then_some(patience)
}

fn saved_dict<'py>(py: Python<'py>, saved: &SavedObjects) -> PyResult<Bound<'py, PyDict>> {
    let SavedObjects { objects, bytes, failed, left, is_all } = *saved;
    let answer = PyDict::new(py);
    let counts = [("objects", objects), ("bytes", bytes), ("failed", failed), ("left", left)];
    for (name, count) in counts {
        answer.set_item(name, count)?;
    }
    answer.set_item("is_all", is_all)?;
    Ok(answer)
}

fn replicas(session: &StoreSession, keys: &[&str]) -> Vec<Vec<ReplicaDescriptor>> {
    let found = session.store().replicas(keys).into_iter();
    found
        .map(|result| {
            let replicas = result.unwrap_or_default().into_iter();
            replicas.map(ReplicaDescriptor::from).collect()
        })
        .collect()
}

impl StoreClient {
    fn unmount(&self, py: Python<'_>, segment_ids: &Keys, grace_period_seconds: Count) -> i32 {
        let ids = match parse_identities(segment_ids) {
            Ok(ids) if grace_period_seconds.0 <= MAX_GRACE_S => ids,
            Ok(_) => return Status::InvalidParams.code(),
            Err(status) => return status.code(),
        };
        let grace_ms = grace_period_seconds.0 * MS_PER_S;
        self.call(
            py,
            || NOT_OPEN,
            |session| session.store().unmount_segments(&ids, grace_ms).code(),
        )
    }

    /// Refuses the words that `setup` refuses. A segment has the protocols of its store, so others
    /// change nothing: one that the store does not have is named.
    fn check_protocol(&self, py: Python<'_>, protocol: &str) -> Result<(), Status> {
        let wanted = Protocols::parse(protocol).map_err(|error| {
            warning::error(py, &format!("Cannot donate a segment: {error}"));
            Status::InvalidParams
        })?;
        let of_store = self.call(
            py,
            || None,
            |session| Protocols::parse(session.store().donated_protocol()).ok(),
        );
        // TCP reaches all memory, and what can be shared is shared whatever is asked for.
        let is_missing = wanted.rdma && wanted != Protocols::ALL;
        if is_missing && of_store.is_some_and(|own| !own.rdma) {
            warning::without_effect(py, warning::STORE_LOGGER, MOUNTS, "protocol");
        }
        Ok(())
    }
}

#[pymethods]
impl StoreClient {
    /// Returns the `ReplicaDescriptor`s of an object; an empty list for a miss.
    fn get_replica_desc(&self, py: Python<'_>, key: Key) -> Vec<ReplicaDescriptor> {
        let found = self.call(py, Vec::new, |session| replicas(session, &[&*key]));
        found.into_iter().next().unwrap_or_default()
    }

    /// Returns a dict of key to `ReplicaDescriptor`s, without the keys that were not found.
    fn batch_get_replica_desc<'py>(
        &self,
        py: Python<'py>,
        keys: Keys,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = {
            let keys = borrow_keys(&keys);
            self.call(py, Vec::new, |session| replicas(session, &keys))
        };
        let answer = PyDict::new(py);
        for (key, replicas) in keys.iter().zip(found) {
            if !replicas.is_empty() {
                answer.set_item(&**key, replicas)?;
            }
        }
        Ok(answer)
    }

    /// Drop the replicas of each key, on one segment ("host:port") or everywhere.
    ///
    /// Returns the keys that were cleared; a leased object or one of another client is not.
    #[pyo3(signature = (keys, segment_name = ""))]
    fn batch_replica_clear(&self, py: Python<'_>, keys: Keys, segment_name: &str) -> Vec<String> {
        let keys = borrow_keys(&keys);
        self.call(py, Vec::new, |session| session.store().replica_clear(&keys, segment_name))
    }

    /// Lend `size` more bytes of memory of this process, of NUMA node N for location "cpu:N".
    ///
    /// Returns {"ret": 0 or a negative code, "segment_ids": list of str}.
    #[pyo3(signature = (size, protocol = "tcp", location = ""))]
    fn allocate_and_mount_segment<'py>(
        &self,
        py: Python<'py>,
        size: Count,
        protocol: &str,
        location: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        if let Err(refused) = self.check_protocol(py, protocol) {
            return mounted(py, Err(refused));
        }
        let numa_node = numa_node(py, location);
        let mount = |session: &StoreSession| session.store().mount_segment(size.0, numa_node);
        let result = self.call(py, || Err(Status::InvalidParams), mount);
        mounted(py, result)
    }

    /// Lend `size` bytes of a file or shared-memory object from `offset` on, a multiple of the
    /// page size. They are overwritten; the file must not be cut before it is unmounted.
    ///
    /// Returns {"ret": 0 or a negative code, "segment_ids": list of str}; ret is -600 for a path
    /// that is no file to write, or a range that is not in it or of which a part is lent already.
    #[pyo3(signature = (path, size, offset = Count(0), protocol = "tcp", location = ""))]
    fn mount_segment<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        size: Count,
        offset: Count,
        protocol: &str,
        location: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        if let Err(refused) = self.check_protocol(py, protocol) {
            return mounted(py, Err(refused));
        }
        let node = numa_node(py, location);
        let mount =
            |session: &StoreSession| session.store().mount_file(path, offset.0, size.0, node);
        let result = self.call(py, || Err(Status::InvalidParams), mount);
        mounted(py, result)
    }

    /// Withdraw lent memory. Segments stay readable for the grace period, up to 3600 s.
    ///
    /// Returns 0, or the first failure (-101 for an unknown segment).
    #[pyo3(signature = (segment_ids, grace_period_seconds = Count(0)))]
    fn unmount_segment(
        &self,
        py: Python<'_>,
        segment_ids: Keys,
        grace_period_seconds: Count,
    ) -> i32 {
        self.unmount(py, &segment_ids, grace_period_seconds)
    }

    /// Withdraw memory of `allocate_and_mount_segment` and free it. Returns as `unmount_segment`.
    #[pyo3(signature = (segment_ids, grace_period_seconds = Count(0)))]
    fn unmount_and_free_segment(
        &self,
        py: Python<'_>,
        segment_ids: Keys,
        grace_period_seconds: Count,
    ) -> i32 {
        self.unmount(py, &segment_ids, grace_period_seconds)
    }

    /// Withdraw this client's disks; what lies only there is gone after the grace. Returns 0, also
    /// without disks, or a negative code.
    #[pyo3(signature = (grace_period_seconds = Count(0)))]
    fn unmount_local_disk_segment(&self, py: Python<'_>, grace_period_seconds: Count) -> i32 {
        if grace_period_seconds.0 > MAX_GRACE_S {
            return Status::InvalidParams.code();
        }
        let grace_ms = grace_period_seconds.0 * 1000;
        self.call(py, || NOT_OPEN, |session| session.store().unmount_disks(grace_ms).code())
    }

    /// Returns whether this client has disks, whether they can be used or not.
    fn has_disks(&self, py: Python<'_>) -> bool {
        self.call(py, || false, |session| session.store().has_disks())
    }

    /// Write what this client's memory alone has to its disks, most worth first, for `seconds` at
    /// most (3600): what a program does before it closes its store.
    ///
    /// Returns a dict of "objects", "bytes", "failed", "left" and "is_all"; None without a disk that
    /// is open.
    fn save_to_disks<'py>(
        &self,
        py: Python<'py>,
        seconds: f64,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(patience) = patience(seconds) else {
            let reason = format!("seconds must be from 0 to {MAX_GRACE_S}, not {seconds}");
            return Err(PyValueError::new_err(reason));
        };
        let until = Instant::now() + patience;
        let saved = self.call(py, || None, |session| session.store().save_to_disks(until));
        saved.map(|saved| saved_dict(py, &saved)).transpose()
    }

    /// Returns how often this client has asked owners of disks for objects; one for each owner in a
    /// call.
    fn get_offload_rpc_read_count(&self, py: Python<'_>) -> u64 {
        self.call(py, || 0, |session| session.store().disk_requests())
    }
}

/// The NUMA node that a location names. Says which other locations a mount ignores.
fn numa_node(py: Python<'_>, location: &str) -> Option<u32> {
    match MemoryLocation::parse(location) {
        Ok(MemoryLocation::Cpu(node)) => Some(node),
        Ok(MemoryLocation::Anywhere) => None,
        _ => {
            warning::warn(py, &format!("Segment location {location:?} is ignored; write cpu:N"));
            None
        }
    }
}
