//! Batch calls on caller memory. Invariant: lists of different lengths answer -600 for every key.

use super::{NOT_OPEN, StoreClient};
use crate::arguments::{Count, Keys, Switch, borrow_keys, filled_pieces, piece};
use crate::replicate_config::{ReplicateConfig, placement};
use crate::transfer::{self, Write};
use crate::warning;
use perigee_schemas::Status;
use perigee_store::api::CallerRange;
use pyo3::prelude::*;

/// One piece per key; every entry is an error when the lists differ in length.
fn single_pieces(
    keys: &Keys,
    addresses: &[Count],
    sizes: &[Count],
) -> Vec<Result<[CallerRange; 1], Status>> {
    if keys.len() != addresses.len() || keys.len() != sizes.len() {
        return vec![Err(Status::InvalidParams); keys.len()];
    }
    addresses
        .iter()
        .zip(sizes)
        .map(|(&address, &bytes)| piece(address, bytes).map(|piece| [piece]))
        .collect()
}

/// Several pieces per key, likewise; empty pieces are left out.
fn piece_lists(
    keys: &Keys,
    addresses: &[Vec<Count>],
    sizes: &[Vec<Count>],
) -> Vec<Result<Vec<CallerRange>, Status>> {
    if keys.len() != addresses.len() || keys.len() != sizes.len() {
        return vec![Err(Status::InvalidParams); keys.len()];
    }
    addresses.iter().zip(sizes).map(|(addresses, sizes)| filled_pieces(addresses, sizes)).collect()
}

impl StoreClient {
    fn batch_put<P: AsRef<[CallerRange]> + Sync>(
        &self,
        py: Python<'_>,
        keys: &Keys,
        objects: &[Result<P, Status>],
        config: Option<&ReplicateConfig>,
        write: Write,
    ) -> Vec<i32> {
        let placement = match placement(config) {
            Ok(placement) => placement,
            Err(status) => return vec![status.code(); keys.len()],
        };
        let keys = borrow_keys(keys);
        self.call(
            py,
            || vec![NOT_OPEN; keys.len()],
            |session| transfer::put(session, &keys, objects, &placement, write.of_batch()),
        )
    }

    fn batch_get<P: AsRef<[CallerRange]> + Sync>(
        &self,
        py: Python<'_>,
        keys: &Keys,
        objects: &[Result<P, Status>],
    ) -> Vec<i64> {
        let keys = borrow_keys(keys);
        self.call(
            py,
            || vec![i64::from(NOT_OPEN); keys.len()],
            |session| session.store().get_codes(&keys, objects),
        )
    }
}

#[pymethods]
impl StoreClient {
    /// Store one buffer per key. Returns a code per key as `put_from`; failures are independent.
    #[pyo3(signature = (keys, buffer_ptrs, sizes, config = None))]
    fn batch_put_from(
        &self,
        py: Python<'_>,
        keys: Keys,
        buffer_ptrs: Vec<Count>,
        sizes: Vec<Count>,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> Vec<i32> {
        let objects = single_pieces(&keys, &buffer_ptrs, &sizes);
        self.batch_put(py, &keys, &objects, config.as_deref(), Write::Create)
    }

    /// As `batch_put_from`, but replaces.
    #[pyo3(signature = (keys, buffer_ptrs, sizes, config = None))]
    fn batch_upsert_from(
        &self,
        py: Python<'_>,
        keys: Keys,
        buffer_ptrs: Vec<Count>,
        sizes: Vec<Count>,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> Vec<i32> {
        let objects = single_pieces(&keys, &buffer_ptrs, &sizes);
        self.batch_put(py, &keys, &objects, config.as_deref(), Write::Replace)
    }

    /// Store one object per key, each gathered from several buffers in order. Returns a code per
    /// key.
    #[pyo3(signature = (keys, all_buffer_ptrs, all_sizes, config = None))]
    fn batch_put_from_multi_buffers(
        &self,
        py: Python<'_>,
        keys: Keys,
        all_buffer_ptrs: Vec<Vec<Count>>,
        all_sizes: Vec<Vec<Count>>,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> Vec<i32> {
        let objects = piece_lists(&keys, &all_buffer_ptrs, &all_sizes);
        self.batch_put(py, &keys, &objects, config.as_deref(), Write::Create)
    }

    /// As `batch_put_from_multi_buffers`, but replaces; the tensor calls are made of it.
    #[pyo3(signature = (keys, all_buffer_ptrs, all_sizes, config = None))]
    fn _batch_upsert_from_multi_buffers(
        &self,
        py: Python<'_>,
        keys: Keys,
        all_buffer_ptrs: Vec<Vec<Count>>,
        all_sizes: Vec<Vec<Count>>,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> Vec<i32> {
        let objects = piece_lists(&keys, &all_buffer_ptrs, &all_sizes);
        self.batch_put(py, &keys, &objects, config.as_deref(), Write::Replace)
    }

    /// Read one object per key into its buffer. Returns bytes read or a negative code per key.
    fn batch_get_into(
        &self,
        py: Python<'_>,
        keys: Keys,
        buffer_ptrs: Vec<Count>,
        sizes: Vec<Count>,
    ) -> Vec<i64> {
        let objects = single_pieces(&keys, &buffer_ptrs, &sizes);
        self.batch_get(py, &keys, &objects)
    }

    /// Read one object per key, each spread over several buffers in order.
    ///
    /// Returns bytes read or a negative code per key; -800 if the buffers have more room than the
    /// object has bytes: callers look at the sign alone, and would take what was in the rest for
    /// theirs. `prefer_alloc_in_same_node` is accepted for older callers: all keys of a batch are
    /// in flight together anyway.
    #[pyo3(signature = (
        keys, all_buffer_ptrs, all_sizes, prefer_alloc_in_same_node = Switch(false)
    ))]
    fn batch_get_into_multi_buffers(
        &self,
        py: Python<'_>,
        keys: Keys,
        all_buffer_ptrs: Vec<Vec<Count>>,
        all_sizes: Vec<Vec<Count>>,
        prefer_alloc_in_same_node: Switch,
    ) -> Vec<i64> {
        if prefer_alloc_in_same_node.0 {
            let calls = "other calls of MooncakeDistributedStore";
            warning::without_effect(py, warning::STORE_LOGGER, calls, "prefer_alloc_in_same_node");
        }
        let objects = piece_lists(&keys, &all_buffer_ptrs, &all_sizes);
        let mut read = self.batch_get(py, &keys, &objects);
        for (read, sizes) in read.iter_mut().zip(&all_sizes) {
            let room: u128 = sizes.iter().map(|size| u128::from(size.0)).sum();
            if u128::try_from(*read).is_ok_and(|read| read < room) {
                *read = Status::TransferFail.code().into();
            }
        }
        read
    }
}
