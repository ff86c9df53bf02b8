//! What Python arguments become before the interpreter is let go. Invariant: whatever a caller
//! passes, it ends as a value, a `TypeError` or a status, never a panic.

use perigee_schemas::Status;
use perigee_store::api::CallerRange;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyInt, PyList, PyString};
use std::ops::Deref;

/// An address, a size or an offset: any integer from 0 to 2^64 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl Count {
    /// The value as an address or a length in this process.
    pub(crate) fn get(self) -> usize {
        self.0 as usize
    }
}

impl<'py> FromPyObject<'_, 'py> for Count {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        object.extract::<u64>().map(Count).map_err(|error| {
            if error.is_instance_of::<PyOverflowError>(object.py()) {
                PyTypeError::new_err("an integer from 0 to 2**64 - 1 is needed")
            } else {
                error
            }
        })
    }
}

/// The value of an int that fits, without the detour over `__index__`; None for anything else.
/// Lists of thousands of addresses are the common case.
fn plain(item: &Bound<'_, PyAny>) -> Option<u64> {
    let int = item.cast::<PyInt>().ok()?;
    // SAFETY: the interpreter is held and the object is an int.
    let count = unsafe { ffi::PyLong_AsUnsignedLongLong(int.as_ptr()) };
    if count == u64::MAX && PyErr::take(int.py()).is_some() {
        return None;
    }
    Some(count)
}

/// Addresses or lengths of a batch: a list, or any other sequence of integers.
#[derive(Debug, Default)]
pub(crate) struct IntegerList(pub(crate) Vec<u64>);

impl<'py> FromPyObject<'_, 'py> for IntegerList {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(list) = object.cast::<PyList>() {
            let mut counts = Vec::with_capacity(list.len());
            for item in list.iter() {
                counts.push(match plain(&item) {
                    Some(count) => count,
                    None => item.extract::<Count>()?.0,
                });
            }
            return Ok(Self(counts));
        }
        let counts: Vec<Count> = object.extract()?;
        Ok(Self(counts.into_iter().map(|count| count.0).collect()))
    }
}

/// A yes or no: a bool, or an integer that is not 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch(pub(crate) bool);

impl<'py> FromPyObject<'_, 'py> for Switch {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyInt>() {
            return object.is_truthy().map(Self);
        }
        object.extract::<bool>().map(Self)
    }
}

/// A key, borrowed from its Python string. Bytes of UTF-8 are taken too, as Mooncake takes them.
pub(crate) struct Key(PyBackedStr);

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'py> FromPyObject<'_, 'py> for Key {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text = match object.cast::<PyBytes>() {
            Ok(bytes) => PyString::from_bytes(object.py(), bytes.as_bytes())
                .and_then(|text| text.extract::<PyBackedStr>()),
            Err(_) if object.is_instance_of::<PyString>() => object.extract::<PyBackedStr>(),
            Err(_) => Err(PyTypeError::new_err(format!(
                "a key must be a str, not {}",
                type_name(&object)
            ))),
        };
        // Lone surrogates and bytes that are no UTF-8 end as UnicodeError otherwise.
        text.map(Self).map_err(|error| {
            if error.is_instance_of::<PyTypeError>(object.py()) {
                error
            } else {
                PyTypeError::new_err(format!("a key must be valid Unicode: {error}"))
            }
        })
    }
}

/// Keys of a batch.
pub(crate) type Keys = Vec<Key>;

/// The keys as the store takes them.
pub(crate) fn borrow_keys(keys: &Keys) -> Vec<&str> {
    keys.iter().map(|key| &**key).collect()
}

/// Name of an object's class, for messages.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// One piece of caller memory, refused if it cannot exist.
pub(crate) fn piece(address: Count, bytes: Count) -> Result<CallerRange, Status> {
    CallerRange::possible(address.0, bytes.0)
}

/// The pieces of an object that are not empty; refused as `pieces` are, and when nothing is left.
pub(crate) fn filled_pieces(
    addresses: &[Count],
    sizes: &[Count],
) -> Result<Vec<CallerRange>, Status> {
    if addresses.len() != sizes.len() {
        return Err(Status::InvalidParams);
    }
    let filled = addresses.iter().zip(sizes).filter(|(_, bytes)| bytes.0 > 0);
    let pieces: Vec<CallerRange> =
        filled.map(|(&address, &bytes)| piece(address, bytes)).collect::<Result<_, _>>()?;
    if pieces.is_empty() {
        return Err(Status::InvalidParams);
    }
    Ok(pieces)
}

/// The pieces of one object; both lists must be of one length and no piece may be impossible.
pub(crate) fn pieces(addresses: &[Count], sizes: &[Count]) -> Result<Vec<CallerRange>, Status> {
    if addresses.len() != sizes.len() || addresses.is_empty() {
        return Err(Status::InvalidParams);
    }
    addresses.iter().zip(sizes).map(|(&address, &bytes)| piece(address, bytes)).collect()
}

/// The codes Python sees of a list of statuses.
pub(crate) fn codes(statuses: Vec<Status>) -> Vec<i32> {
    statuses.into_iter().map(Status::code).collect()
}
