//! Copy and move tasks as Python sees them. Invariant: an answer is a snapshot that changes no
//! more.

use crate::arguments::Count;
use crate::enumeration::{TaskStatus, TaskType};
use perigee_schemas::Identity;
use perigee_store::{Task, TaskKind, TaskState};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The two integers Mooncake shows an identity as.
pub(crate) type Halves = (u64, u64);

/// An identity as its two integers.
pub(crate) fn halves(identity: Identity) -> Halves {
    (identity.high(), identity.low())
}

/// Identity of a task: a tuple or list of two integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskId(pub(crate) Identity);

impl<'py> FromPyObject<'_, 'py> for TaskId {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<Vec<Count>>()?.as_slice() {
            [high, low] => Ok(Self(Identity::from_halves(high.0, low.0))),
            _ => Err(PyTypeError::new_err("a pair of integers is needed")),
        }
    }
}

/// What `query_task` says of a task: id, type, status, created_at_ms_epoch,
/// last_updated_at_ms_epoch, assigned_client and message.
#[pyclass(frozen, module = "mooncake.store", get_all)]
#[derive(Debug)]
pub(crate) struct QueryTaskResponse {
    id: Halves,
    r#type: TaskType,
    status: TaskStatus,
    created_at_ms_epoch: u64,
    last_updated_at_ms_epoch: u64,
    assigned_client: Halves,
    message: String,
}

impl QueryTaskResponse {
    pub(crate) fn from_task(id: Identity, task: Task) -> Self {
        Self {
            id: halves(id),
            r#type: match task.kind {
                TaskKind::Copy => TaskType::REPLICA_COPY,
                TaskKind::Move => TaskType::REPLICA_MOVE,
            },
            status: match task.state {
                TaskState::Pending => TaskStatus::PENDING,
                TaskState::Processing => TaskStatus::PROCESSING,
                TaskState::Failed => TaskStatus::FAILED,
                TaskState::Succeeded => TaskStatus::SUCCESS,
            },
            created_at_ms_epoch: task.created_ms,
            last_updated_at_ms_epoch: task.updated_ms,
            assigned_client: halves(task.client),
            message: task.message,
        }
    }
}

#[pymethods]
impl QueryTaskResponse {
    #[new]
    fn new() -> Self {
        Self {
            id: (0, 0),
            r#type: TaskType::REPLICA_COPY,
            status: TaskStatus::PENDING,
            created_at_ms_epoch: 0,
            last_updated_at_ms_epoch: 0,
            assigned_client: (0, 0),
            message: String::new(),
        }
    }

    fn __repr__(&self) -> String {
        let pair = |(high, low): Halves| format!("{high}-{low}");
        format!(
            "QueryTaskResponse(id={}, type={}, status={}, created_at={}, last_updated_at={}, \
             assigned_client={}, message=\"{}\")",
            pair(self.id),
            u8::from(self.r#type),
            u8::from(self.status),
            self.created_at_ms_epoch,
            self.last_updated_at_ms_epoch,
            pair(self.assigned_client),
            self.message
        )
    }
}
