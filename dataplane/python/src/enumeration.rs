//! The enums of `mooncake.store` and `mooncake.engine`. Invariant: each behaves like the ones
//! clients know: `name`, `value`, `int()`, `__members__`, equal only to the same member of the same
//! enum.

use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What pickle needs: the class and its arguments.
type Reduced<'py> = (Bound<'py, PyType>, Bound<'py, PyTuple>);

macro_rules! enumeration {
    (
        $(#[$doc:meta])* $name:ident, $text:literal, $module:literal,
        { $($(#[$member_doc:meta])* $member:ident = $value:literal,)+ }
    ) => {
        $(#[$doc])*
        #[pyclass(frozen, from_py_object, module = $module)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) struct $name(u8);

        impl $name {
            /// The member of a number, if there is one.
            pub(crate) const fn from_value(value: u8) -> Option<Self> {
                match value {
                    $($value => Some(Self(value)),)+
                    _ => None,
                }
            }

            /// Name of the member.
            pub(crate) const fn text(self) -> &'static str {
                match self.0 {
                    $($value => stringify!($member),)+
                    _ => "???",
                }
            }
        }

        impl From<$name> for u8 {
            fn from(member: $name) -> u8 {
                member.0
            }
        }

        #[pymethods]
        #[allow(non_upper_case_globals, reason = "the names that clients know")]
        impl $name {
            $($(#[$member_doc])* #[classattr] pub(crate) const $member: $name = $name($value);)+

            #[new]
            fn new(value: i64) -> PyResult<Self> {
                u8::try_from(value)
                    .ok()
                    .and_then(Self::from_value)
                    .ok_or_else(|| PyValueError::new_err(format!("{value} is no {}", $text)))
            }

            /// All members by name.
            #[classattr]
            fn __members__(py: Python<'_>) -> PyResult<Py<PyDict>> {
                let members = PyDict::new(py);
                $(members.set_item(stringify!($member), $name($value))?;)+
                Ok(members.unbind())
            }

            /// Name of the member.
            #[getter]
            fn name(&self) -> &'static str {
                self.text()
            }

            /// Number of the member.
            #[getter]
            fn value(&self) -> u8 {
                self.0
            }

            fn __int__(&self) -> u8 {
                self.0
            }

            fn __index__(&self) -> u8 {
                self.0
            }

            fn __hash__(&self) -> u64 {
                let mut hasher = DefaultHasher::new();
                self.hash(&mut hasher);
                hasher.finish()
            }

            fn __richcmp__(&self, other: &Bound<'_, PyAny>, compared: CompareOp) -> PyResult<bool> {
                match (other.extract::<Self>(), compared) {
                    (Ok(other), _) => Ok(compared.matches(self.0.cmp(&other.0))),
                    (Err(_), CompareOp::Eq) => Ok(false),
                    (Err(_), CompareOp::Ne) => Ok(true),
                    (Err(_), _) => Err(PyTypeError::new_err(concat!("not a ", $text))),
                }
            }

            fn __str__(&self) -> String {
                format!("{}.{}", $text, self.text())
            }

            fn __repr__(&self) -> String {
                format!("<{}.{}: {}>", $text, self.text(), self.0)
            }

            fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
                Ok((py.get_type::<Self>(), PyTuple::new(py, [self.0])?))
            }
        }
    };
}

enumeration! {
    /// What the bytes of an object are; for statistics only.
    ObjectDataType, "ObjectDataType", "mooncake.store", {
        /// Not said.
        UNKNOWN = 0,
        /// Keys and values of attention.
        KVCACHE = 1,
        /// A tensor.
        TENSOR = 2,
        /// Model weights.
        WEIGHT = 3,
        /// Training samples.
        SAMPLE = 4,
        /// Activations.
        ACTIVATION = 5,
        /// Gradients.
        GRADIENT = 6,
        /// State of an optimizer.
        OPTIMIZER_STATE = 7,
        /// Data about data.
        METADATA = 8,
        /// Anything else.
        GENERAL = 9,
    }
}

enumeration! {
    /// What a put does to the soft pin of an object.
    SoftPinAction, "SoftPinAction", "mooncake.store", {
        /// Leave it as it is.
        PRESERVE = 0,
        /// Pin it: evicted after everything that is not pinned.
        ENABLE = 1,
        /// Unpin it.
        DISABLE = 2,
    }
}

enumeration! {
    /// State of one replica.
    ReplicaStatus, "ReplicaStatus", "mooncake.store", {
        /// Not known.
        UNDEFINED = 0,
        /// Space is allocated.
        INITIALIZED = 1,
        /// Bytes are being written.
        PROCESSING = 2,
        /// Readable.
        COMPLETE = 3,
        /// Removed.
        REMOVED = 4,
        /// Failed.
        FAILED = 5,
    }
}

enumeration! {
    /// What a background task does.
    TaskType, "TaskType", "mooncake.store", {
        /// Copies a replica.
        REPLICA_COPY = 0,
        /// Moves a replica.
        REPLICA_MOVE = 1,
    }
}

enumeration! {
    /// How far a background task is.
    TaskStatus, "TaskStatus", "mooncake.store", {
        /// Waiting.
        PENDING = 0,
        /// Running.
        PROCESSING = 1,
        /// Failed.
        FAILED = 2,
        /// Done.
        SUCCESS = 3,
    }
}

enumeration! {
    /// Direction of a transfer, seen from the caller.
    TransferOpcode, "TransferOpcode", "mooncake.engine", {
        /// From the peer's memory into the caller's.
        Read = 0,
        /// From the caller's memory into the peer's.
        Write = 1,
    }
}
