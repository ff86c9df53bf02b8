//! Copies and moves of single objects between segments. Invariant: a call asks and returns; the
//! owner of the source copies later, and `query_task` tells how that went.

use super::{NOT_OPEN, StoreClient};
use crate::arguments::{Key, Keys, borrow_keys};
use crate::task::{Halves, QueryTaskResponse, TaskId, halves};
use perigee_schemas::Status;
use perigee_store::TaskSpec;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

impl StoreClient {
    /// A task's identity and 0, or zeros and a code.
    fn create_task(&self, py: Python<'_>, key: &str, spec: &TaskSpec<'_>) -> (Halves, i32) {
        self.call(
            py,
            || ((0, 0), NOT_OPEN),
            |session| match session.store().create_task(key, spec) {
                Ok(id) => (halves(id), Status::Ok.code()),
                Err(status) => ((0, 0), status.code()),
            },
        )
    }
}

#[pymethods]
impl StoreClient {
    /// Have an object copied to segments, given by their names ("host:port" of the owners).
    ///
    /// Returns (task id, 0), the id being a pair of integers, or ((0, 0), code): -704 unknown key,
    /// -703 unfinished, -600 no target or one that is not mounted, -1010 a target that is being
    /// emptied, -1401 too many tasks wait. A target that holds the object already is served.
    fn create_copy_task(&self, py: Python<'_>, key: Key, targets: Keys) -> (Halves, i32) {
        let targets = borrow_keys(&targets);
        let spec = TaskSpec::Copy { targets: &targets };
        self.create_task(py, &key, &spec)
    }

    /// Have the replica of an object on segment `source` moved to segment `target`.
    ///
    /// Returns as `create_copy_task`; -600 also where `source` holds no replica or is `target`.
    fn create_move_task(
        &self,
        py: Python<'_>,
        key: Key,
        source: PyBackedStr,
        target: PyBackedStr,
    ) -> (Halves, i32) {
        let spec = TaskSpec::Move { source: &source, target: &target };
        self.create_task(py, &key, &spec)
    }

    /// Ask how a task is.
    ///
    /// Returns (`QueryTaskResponse`, 0), or (None, code): -1400 for a task that the master does not
    /// know, or does not remember any more.
    fn query_task(&self, py: Python<'_>, task_id: TaskId) -> (Option<QueryTaskResponse>, i32) {
        let found = self.call(
            py,
            || Err(Status::InvalidParams),
            |session| session.store().query_task(task_id.0),
        );
        match found {
            Ok(task) => {
                let response = QueryTaskResponse::from_task(task_id.0, task);
                (Some(response), Status::Ok.code())
            }
            Err(status) => (None, status.code()),
        }
    }
}
