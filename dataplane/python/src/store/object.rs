//! Calls about single objects and those that copy Python bytes.
//! Invariant: a miss is `b""` or `None`, and Python bytes are filled in place, never copied twice.

use super::{NOT_OPEN, StoreClient};
use crate::arguments::{Count, Key, Keys, Switch, borrow_keys, codes, piece};
use crate::buffer_handle::{BufferHandle, OwnedBytes};
use crate::replicate_config::{OwnedConfig, ReplicateConfig, placement};
use crate::session::StoreSession;
use crate::trace::Belonging;
use crate::transfer::{self, Write};
use crate::value::ValueBuffer;
use crate::without_gil::without_gil;
use perigee_schemas::Status;
use perigee_store::api::{CallerRange, WriteForm};
use perigee_store::count_or_code;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyBytes;
use std::ptr;
use std::slice;

/// A bytes object of undefined content and where to write it. It is private until it is returned.
fn blank_bytes(py: Python<'_>, bytes: u64) -> PyResult<(Bound<'_, PyBytes>, CallerRange)> {
    let length = ffi::Py_ssize_t::try_from(bytes)?;
    // SAFETY: the interpreter is held; a null source asks for uninitialised content, and a null
    // result is turned into the pending MemoryError.
    let value = unsafe {
        let object = ffi::PyBytes_FromStringAndSize(ptr::null(), length);
        Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>()
    };
    // SAFETY: `value` is a live bytes object.
    let address = unsafe { ffi::PyBytes_AsString(value.as_ptr()) } as usize;
    let bytes = bytes as usize;
    Ok((value, CallerRange::owned(address, bytes)))
}

/// Pieces of the parts that are not empty; refused when nothing is left.
fn value_pieces(parts: &[ValueBuffer]) -> Result<Vec<CallerRange>, Status> {
    let pieces: Vec<CallerRange> =
        parts.iter().map(ValueBuffer::piece).filter(|piece| piece.bytes > 0).collect();
    if pieces.is_empty() { Err(Status::InvalidParams) } else { Ok(pieces) }
}

impl StoreClient {
    /// Stores objects whose pieces lie in Python buffers; one code per key.
    fn put_values(
        &self,
        py: Python<'_>,
        keys: &[&str],
        objects: &[Result<Vec<CallerRange>, Status>],
        placement: Result<OwnedConfig, Status>,
        form: WriteForm,
    ) -> Vec<i32> {
        let placement = match placement {
            Ok(placement) => placement,
            Err(status) => return vec![status.code(); keys.len()],
        };
        self.call(
            py,
            || vec![NOT_OPEN; keys.len()],
            |session| {
                if session.store().copies() {
                    transfer::put(session, keys, objects, &placement, form)
                } else {
                    vec![Status::InvalidParams.code(); keys.len()]
                }
            },
        )
    }

    fn put_one(
        &self,
        py: Python<'_>,
        key: &str,
        object: Result<Vec<CallerRange>, Status>,
        placement: Result<OwnedConfig, Status>,
        write: Write,
    ) -> i32 {
        first_failure(self.put_values(py, &[key], &[object], placement, write.of_one()))
    }

    fn put_many(
        &self,
        py: Python<'_>,
        keys: &Keys,
        values: &[ValueBuffer],
        config: Option<&ReplicateConfig>,
        write: Write,
    ) -> i32 {
        let objects: Vec<_> =
            values.iter().map(|value| value_pieces(slice::from_ref(value))).collect();
        let form = write.of_batch();
        let codes = self.put_values(py, &borrow_keys(keys), &objects, placement(config), form);
        first_failure(codes)
    }

    /// Stores one object from caller memory.
    fn put_pieces(
        &self,
        py: Python<'_>,
        key: &str,
        object: Result<Vec<CallerRange>, Status>,
        config: Option<&ReplicateConfig>,
        write: Write,
    ) -> i32 {
        let placement = match placement(config) {
            Ok(placement) => placement,
            Err(status) => return status.code(),
        };
        let form = write.of_one();
        let put =
            |session: &StoreSession| transfer::put(session, &[key], &[object], &placement, form);
        first_failure(self.call(py, || vec![NOT_OPEN], put))
    }

    /// Reads whole objects; None for each that could not be read.
    fn read_bytes<'py>(
        &self,
        py: Python<'py>,
        keys: &[&str],
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let mut values: Vec<Option<Bound<'py, PyBytes>>> = keys.iter().map(|_| None).collect();
        let Some(session) = self.session(py).filter(|session| session.store().copies()) else {
            return Ok(values);
        };
        let session = &*session;
        // Both steps are one call for who follows it.
        let _belonging = Belonging::begin(py);
        let traced = session.store().begin_read(keys.len());
        let lookup = without_gil(py, || session.store().locate(keys));
        let mut targets = Vec::with_capacity(keys.len());
        for (index, value) in values.iter_mut().enumerate() {
            if let Ok(bytes @ 1..) = lookup.object(index) {
                let (blank, target) = blank_bytes(py, bytes)?;
                *value = Some(blank);
                targets.push((index, target));
            }
        }
        let results = without_gil(py, || transfer::read_located(session, &lookup, &targets));
        for ((index, target), result) in targets.iter().zip(&results) {
            if *result != Ok(target.bytes as u64) {
                values[*index] = None;
            }
        }
        traced.end(session.store(), keys, &lookup, &results);
        Ok(values)
    }

    /// Reads whole objects into memory of their own; None for each that could not be read.
    fn read_handles(&self, py: Python<'_>, keys: &[&str]) -> Vec<Option<BufferHandle>> {
        let handles = self.call(
            py,
            || keys.iter().map(|_| None).collect(),
            |session| {
                if session.store().copies() {
                    read_owned(session, keys)
                } else {
                    keys.iter().map(|_| None).collect()
                }
            },
        );
        handles.into_iter().map(|bytes: Option<OwnedBytes>| bytes.map(BufferHandle::new)).collect()
    }
}

fn read_owned(session: &StoreSession, keys: &[&str]) -> Vec<Option<OwnedBytes>> {
    let traced = session.store().begin_read(keys.len());
    let lookup = session.store().locate(keys);
    let mut owned: Vec<Option<OwnedBytes>> = (0..keys.len())
        .map(|index| lookup.object(index).ok().and_then(OwnedBytes::for_read))
        .collect();
    let targets: Vec<(usize, CallerRange)> = owned
        .iter()
        .enumerate()
        .filter_map(|(index, bytes)| Some((index, bytes.as_ref()?.piece())))
        .collect();
    let results = transfer::read_located(session, &lookup, &targets);
    for ((index, target), result) in targets.iter().zip(&results) {
        if *result != Ok(target.bytes as u64) {
            owned[*index] = None;
        }
    }
    traced.end(session.store(), keys, &lookup, &results);
    owned
}

fn first_failure(codes: Vec<i32>) -> i32 {
    codes.into_iter().find(|&code| code != Status::Ok.code()).unwrap_or(Status::Ok.code())
}

#[pymethods]
impl StoreClient {
    /// Store a copy of a contiguous bytes-like object: all its bytes, whatever its item type.
    ///
    /// Returns 0 (also when the key exists: the old value stays), -200 no space, -600 for an empty
    /// key or value or a store set up with local_buffer_size 0, -900 master not reachable.
    #[pyo3(signature = (key, value, config = None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Key,
        value: ValueBuffer,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> i32 {
        let placement = placement(config.as_deref()).and_then(|placement| {
            // One value has no batch to keep together; clients rely on the refusal.
            if placement.config.prefer_alloc_in_same_node {
                Err(Status::InvalidParams)
            } else {
                Ok(placement)
            }
        });
        let object = value_pieces(slice::from_ref(&value));
        self.put_one(py, &key, object, placement, Write::Create)
    }

    /// Store the concatenation of the parts as one object. Returns as `put`; 0 without any part.
    #[pyo3(signature = (key, *args, config = None))]
    fn put_parts(
        &self,
        py: Python<'_>,
        key: Key,
        args: Vec<ValueBuffer>,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> i32 {
        if args.is_empty() && self.session(py).is_some() {
            return Status::Ok.code();
        }
        let placement = placement(config.as_deref());
        self.put_one(py, &key, value_pieces(&args), placement, Write::Create)
    }

    /// Store several values. Returns 0, or the code of the first that failed; the others are
    /// stored.
    #[pyo3(signature = (keys, values, config = None))]
    fn put_batch(
        &self,
        py: Python<'_>,
        keys: Keys,
        values: Vec<ValueBuffer>,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> i32 {
        self.put_many(py, &keys, &values, config.as_deref(), Write::Create)
    }

    /// As `put`, but replaces an object of the same key; readers see the old or the new bytes. Of
    /// upserts that overlap the one that began last wins, the others return 0 all the same.
    #[pyo3(signature = (key, value, config = None))]
    fn upsert(
        &self,
        py: Python<'_>,
        key: Key,
        value: ValueBuffer,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> i32 {
        let object = value_pieces(slice::from_ref(&value));
        self.put_one(py, &key, object, placement(config.as_deref()), Write::Replace)
    }

    /// As `put_parts`, but replaces.
    #[pyo3(signature = (key, *args, config = None))]
    fn upsert_parts(
        &self,
        py: Python<'_>,
        key: Key,
        args: Vec<ValueBuffer>,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> i32 {
        if args.is_empty() && self.session(py).is_some() {
            return Status::Ok.code();
        }
        let placement = placement(config.as_deref());
        self.put_one(py, &key, value_pieces(&args), placement, Write::Replace)
    }

    /// As `put_batch`, but replaces.
    #[pyo3(signature = (keys, values, config = None))]
    fn upsert_batch(
        &self,
        py: Python<'_>,
        keys: Keys,
        values: Vec<ValueBuffer>,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> i32 {
        self.put_many(py, &keys, &values, config.as_deref(), Write::Replace)
    }

    /// Store `size` bytes at address `buffer_ptr` without a copy in this process. Returns as `put`.
    #[pyo3(signature = (key, buffer_ptr, size, config = None))]
    fn put_from(
        &self,
        py: Python<'_>,
        key: Key,
        buffer_ptr: Count,
        size: Count,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> i32 {
        let object = piece(buffer_ptr, size).map(|piece| vec![piece]);
        self.put_pieces(py, &key, object, config.as_deref(), Write::Create)
    }

    /// As `put_from`, but replaces.
    #[pyo3(signature = (key, buffer_ptr, size, config = None))]
    fn upsert_from(
        &self,
        py: Python<'_>,
        key: Key,
        buffer_ptr: Count,
        size: Count,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> i32 {
        let object = piece(buffer_ptr, size).map(|piece| vec![piece]);
        self.put_pieces(py, &key, object, config.as_deref(), Write::Replace)
    }

    /// Store metadata bytes followed by payload bytes as one object. Returns as `put_from`.
    #[pyo3(signature = (key, buffer_ptr, metadata_buffer_ptr, size, metadata_size, config = None))]
    #[expect(clippy::too_many_arguments, reason = "the signature is the clients'")]
    fn put_from_with_metadata(
        &self,
        py: Python<'_>,
        key: Key,
        buffer_ptr: Count,
        metadata_buffer_ptr: Count,
        size: Count,
        metadata_size: Count,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> i32 {
        let object = match metadata_size {
            Count(0) => piece(buffer_ptr, size).map(|payload| vec![payload]),
            _ => piece(metadata_buffer_ptr, metadata_size)
                .and_then(|metadata| Ok(vec![metadata, piece(buffer_ptr, size)?])),
        };
        self.put_pieces(py, &key, object, config.as_deref(), Write::Create)
    }

    /// Returns the object's bytes; b"" for a miss or any failure.
    fn get<'py>(&self, py: Python<'py>, key: Key) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.read_bytes(py, &[&*key])?.pop().flatten();
        Ok(value.unwrap_or_else(|| PyBytes::new(py, b"")))
    }

    /// Returns the bytes of each object; b"" for each miss.
    fn get_batch<'py>(&self, py: Python<'py>, keys: Keys) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let values = self.read_bytes(py, &borrow_keys(&keys))?;
        let empty = || PyBytes::new(py, b"");
        Ok(values.into_iter().map(|it| it.unwrap_or_else(empty)).collect())
    }

    /// Returns a `BufferHandle` with the object's bytes; None for a miss or any failure.
    fn get_buffer(&self, py: Python<'_>, key: Key) -> Option<BufferHandle> {
        self.read_handles(py, &[&*key]).pop().flatten()
    }

    /// Returns a `BufferHandle` per key; None for each miss.
    fn batch_get_buffer(&self, py: Python<'_>, keys: Keys) -> Vec<Option<BufferHandle>> {
        self.read_handles(py, &borrow_keys(&keys))
    }

    /// Read an object into `size` bytes at address `buffer_ptr`.
    ///
    /// Returns the bytes read, -704 for a miss, -600 when the object is larger than `size`.
    fn get_into(&self, py: Python<'_>, key: Key, buffer_ptr: Count, size: Count) -> i64 {
        let target = piece(buffer_ptr, size).map(|piece| [piece]);
        let read = |session: &StoreSession| session.store().get_codes(&[&*key], &[target]);
        let results = self.call(py, || vec![i64::from(NOT_OPEN)], read);
        results.first().copied().unwrap_or(i64::from(NOT_OPEN))
    }

    /// Returns 1 the object exists, 0 it does not, or a negative code.
    fn is_exist(&self, py: Python<'_>, key: Key) -> i32 {
        self.call(py, || NOT_OPEN, |session| session.store().exists_code(&key))
    }

    /// Returns a list of 1, 0 or a negative code per key.
    fn batch_is_exist(&self, py: Python<'_>, keys: Keys) -> Vec<i32> {
        let keys = borrow_keys(&keys);
        self.call(py, || vec![NOT_OPEN; keys.len()], |session| session.store().exist_codes(&keys))
    }

    /// Returns the object's size in bytes, or a negative code (-704 for a miss).
    fn get_size(&self, py: Python<'_>, key: Key) -> i64 {
        self.call(
            py,
            || i64::from(NOT_OPEN),
            |session| {
                let size = session.store().size(&[&*key]).into_iter().next();
                count_or_code(size.unwrap_or(Err(Status::InternalError)))
            },
        )
    }

    /// Remove an object. Returns 0, -704 unknown, -706 while a lease runs unless `force`.
    #[pyo3(signature = (key, force = Switch(false)))]
    fn remove(&self, py: Python<'_>, key: Key, force: Switch) -> i32 {
        let remove = |session: &StoreSession| codes(session.store().remove(&[&*key], force.0));
        first_or_not_open(self.call(py, || vec![NOT_OPEN], remove))
    }

    /// Remove several objects. Returns a code per key as `remove`.
    #[pyo3(signature = (keys, force = Switch(false)))]
    fn batch_remove(&self, py: Python<'_>, keys: Keys, force: Switch) -> Vec<i32> {
        let keys = borrow_keys(&keys);
        self.call(
            py,
            || vec![NOT_OPEN; keys.len()],
            |session| codes(session.store().remove(&keys, force.0)),
        )
    }

    /// Remove the objects whose key contains a match. Returns how many, or -600 for a bad pattern.
    ///
    /// A match takes time linear in the key, so patterns have no backreferences and no look-around.
    #[pyo3(signature = (regex_pattern, force = Switch(false)))]
    fn remove_by_regex(&self, py: Python<'_>, regex_pattern: PyBackedStr, force: Switch) -> i64 {
        self.call(
            py,
            || i64::from(NOT_OPEN),
            |session| count_or_code(session.store().remove_by_regex(&regex_pattern, force.0)),
        )
    }

    /// Remove all objects of this tenant without a running lease, or all with `force`. Returns how
    /// many.
    #[pyo3(signature = (force = Switch(false)))]
    fn remove_all(&self, py: Python<'_>, force: Switch) -> i64 {
        self.call(
            py,
            || i64::from(NOT_OPEN),
            |session| count_or_code(session.store().remove_all(force.0)),
        )
    }
}

fn first_or_not_open(codes: Vec<i32>) -> i32 {
    codes.first().copied().unwrap_or(NOT_OPEN)
}
