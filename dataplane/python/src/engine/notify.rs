//! `TransferNotify`: a short message between engines. Invariant: a notify given to a call is copied
//! before the call waits, so later changes of it do not matter.

use perigee_engine::Notify;
use pyo3::prelude::*;

/// A message to a peer: `name` says what it is about, `msg` is its text. Given to `transfer_sync`
/// it arrives once the bytes have; the peer reads it with `get_notifies`.
#[pyclass(module = "mooncake.engine")]
#[derive(Debug)]
pub(crate) struct TransferNotify {
    #[pyo3(get, set)]
    name: String,
    #[pyo3(get, set)]
    msg: String,
}

impl From<Notify> for TransferNotify {
    fn from(notify: Notify) -> Self {
        Self { name: notify.name, msg: notify.message }
    }
}

impl From<&TransferNotify> for Notify {
    fn from(notify: &TransferNotify) -> Self {
        Self { name: notify.name.clone(), message: notify.msg.clone() }
    }
}

#[pymethods]
impl TransferNotify {
    #[new]
    #[pyo3(signature = (name = String::new(), msg = String::new()))]
    fn new(name: String, msg: String) -> Self {
        Self { name, msg }
    }

    fn __repr__(&self) -> String {
        format!("TransferNotify(name={:?}, msg={:?})", self.name, self.msg)
    }
}
