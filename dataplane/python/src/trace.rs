//! Which request of the program a call belongs to. A program says so through
//! `perigee_mooncake.trace`, or has loaded OpenTelemetry; one that did neither pays a look into a
//! dict.
//! Invariant: what is no `traceparent`, or cannot be asked for, is none, and never an error.

use crate::signals;
use perigee_activity::belongs_to;
use perigee_schemas::trace::TraceContext;
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Says that the calls of this thread belong to what the program works at, until it is dropped.
pub(crate) struct Belonging(Option<TraceContext>);

impl Belonging {
    /// Of the calls that the thread makes now.
    pub(crate) fn begin(py: Python<'_>) -> Self {
        let asked = current(py).unwrap_or_else(|error| {
            match error.is_instance_of::<PyException>(py) {
                true => error.write_unraisable(py, None),
                false => signals::interrupt_again(),
            }
            None
        });
        Self(belongs_to(asked))
    }
}

impl Drop for Belonging {
    fn drop(&mut self) {
        belongs_to(self.0);
    }
}

fn current(py: Python<'_>) -> PyResult<Option<TraceContext>> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || {
        let modules = py.import("sys")?.getattr("modules")?;
        Ok::<_, PyErr>(modules.cast_into::<PyDict>()?.unbind())
    })?;
    let modules = modules.bind(py);
    let source = match modules.get_item(intern!(py, "perigee_mooncake.trace"))? {
        Some(source) => source,
        None if modules.contains(intern!(py, "opentelemetry.trace"))? => {
            py.import("perigee_mooncake.trace")?.into_any()
        }
        None => return Ok(None),
    };
    let said = source.call_method0(intern!(py, "current"))?;
    let said: Option<String> = said.extract().unwrap_or_default();
    Ok(said.as_deref().and_then(TraceContext::parse))
}
