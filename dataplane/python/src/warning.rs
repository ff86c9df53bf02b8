//! Messages to the user: those of the Python layer through Python's own `logging`, those of the
//! store's threads to the standard error. Invariant: a message that cannot be delivered never fails
//! a call.

use crate::signals;
use crate::without_gil::GilRelease;
use pyo3::prelude::*;
use std::io;
use tracing_subscriber::EnvFilter;

/// Environment variable with the filter of the store's own messages, for example `info`.
const FILTER_VARIABLE: &str = "PERIGEE_LOG";
const DEFAULT_FILTER: &str = "warn";

const STORE_LOGGER: &str = "mooncake.store";
const ENGINE_LOGGER: &str = "mooncake.engine";

fn log(py: Python<'_>, logger: &str, level: &str, message: &str) {
    // The exception of a signal's handler says why the call ends.
    if signals::is_raising() {
        return;
    }
    // Python's logging gives the lock up while it writes.
    let Some(_absence) = GilRelease::begin() else {
        return;
    };
    let sent = py
        .import("logging")
        .and_then(|logging| logging.call_method1("getLogger", (logger,)))
        .and_then(|logger| logger.call_method1(level, ("%s", message)));
    if let Err(error) = sent {
        error.write_unraisable(py, None);
    }
}

/// Logs a warning of the store: the call goes on, but not as asked.
pub(crate) fn warn(py: Python<'_>, message: &str) {
    log(py, STORE_LOGGER, "warning", message);
}

/// Logs an error of the store: the call ends with a code that the message explains.
pub(crate) fn error(py: Python<'_>, message: &str) {
    log(py, STORE_LOGGER, "error", message);
}

/// Logs a warning of the transfer engine.
pub(crate) fn engine_warn(py: Python<'_>, message: &str) {
    log(py, ENGINE_LOGGER, "warning", message);
}

/// Logs an error of the transfer engine.
pub(crate) fn engine_error(py: Python<'_>, message: &str) {
    log(py, ENGINE_LOGGER, "error", message);
}

/// Starts to print what the store's threads report, unless this process prints it already.
pub(crate) fn print_store_messages() {
    let filter =
        EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let printer =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    // Another subscriber of the process sees the messages then.
    let _ = printer.try_init();
}
