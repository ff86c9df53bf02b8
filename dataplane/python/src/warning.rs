//! Messages to the user of the Python layer, through Python's own `logging`.
//! Invariant: a message that cannot be delivered never fails the call it is about.

use pyo3::prelude::*;

const LOGGER: &str = "mooncake.store";

fn log(py: Python<'_>, level: &str, message: &str) {
    let sent = py
        .import("logging")
        .and_then(|logging| logging.call_method1("getLogger", (LOGGER,)))
        .and_then(|logger| logger.call_method1(level, ("%s", message)));
    if let Err(error) = sent {
        error.write_unraisable(py, None);
    }
}

/// Logs a warning: the call goes on, but not as asked.
pub(crate) fn warn(py: Python<'_>, message: &str) {
    log(py, "warning", message);
}

/// Logs an error: the call ends with a code that the message explains.
pub(crate) fn error(py: Python<'_>, message: &str) {
    log(py, "error", message);
}
