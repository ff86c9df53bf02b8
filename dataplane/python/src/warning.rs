//! Messages to the user: those of the Python layer through Python's own `logging`, those of the
//! store's threads to the standard error or a file. Invariant: a message that cannot be delivered
//! never fails a call.

use crate::signals;
use crate::without_gil::GilRelease;
use perigee_settings::{Variables, word_without_effect};
use pyo3::prelude::*;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Environment variable with the filter of the store's own messages, for example `info`.
const FILTER_VARIABLE: &str = "PERIGEE_LOG";
/// The line of throughput and latency is written only if a variable asks for it.
const DEFAULT_FILTER: &str = "warn,glommio=error,perigee_report=info";
/// Folder for the file of the store's own messages.
const FOLDER_VARIABLE: &str = "MC_LOG_DIR";

pub(crate) const STORE_LOGGER: &str = "mooncake.store";
pub(crate) const ENGINE_LOGGER: &str = "mooncake.engine";

/// Words without effect that were named, with the call that takes them.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

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

/// Says once per process that a word of Mooncake has no effect where it was given, as the table of
/// these words has it.
#[pyfunction]
#[pyo3(name = "say_without_effect")]
pub(crate) fn without_effect(py: Python<'_>, logger: &str, taken_by: &str, name: &str) {
    let word = format!("{taken_by}: {name}");
    if !SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(word) {
        return;
    }
    let line = word_without_effect(taken_by, name);
    debug_assert!(line.is_some(), "{taken_by} has no word {name} without effect");
    log(py, logger, "warning", &format!("{taken_by}: {}", line.unwrap_or_default()));
}

/// Starts to log what the store's threads report, unless this process logs it already: to a file in
/// `MC_LOG_DIR`, or to the standard error.
pub(crate) fn log_store_messages() {
    let source = Variables::of_process;
    let variables = Variables::new(&source);
    let level = perigee_settings::log_level(&variables);
    let named = level.as_ref().ok().copied().flatten().unwrap_or(DEFAULT_FILTER);
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(named));
    let file = variables.text(FOLDER_VARIABLE).map(|folder| log_file(Path::new(&folder)));
    let (writer, trouble) = match file {
        Some(Ok(file)) => (BoxMakeWriter::new(Mutex::new(file)), None),
        Some(Err(error)) => (BoxMakeWriter::new(io::stderr), Some(error)),
        None => (BoxMakeWriter::new(io::stderr), None),
    };
    let printer =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false);
    // Another subscriber of the process sees the messages then.
    let _ = printer.try_init();
    if let Err(error) = level {
        tracing::warn!("{error}; {DEFAULT_FILTER} is used");
    }
    if let Some(error) = trouble {
        tracing::warn!(
            "{FOLDER_VARIABLE} cannot be used, messages go to the standard error: {error}"
        );
    }
}

/// The log file of this process, appended to.
fn log_file(folder: &Path) -> io::Result<File> {
    let name = format!("perigee-python.{}.log", std::process::id());
    OpenOptions::new().create(true).append(true).open(folder.join(name))
}
