//! The log of a server. Invariant: no thread that serves ever waits for a log line to be written,
//! and a log that cannot be written costs lines, never the service.

mod file;
mod filter;
mod queue;

use crate::logging::queue::{Destinations, LogQueue, LogSeverity};
use perigee_flags::{FlagError, LogSettings, Origin, ProcessEnvironment};
use std::io::{self, IsTerminal as _};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt as _;

pub(crate) use queue::LogGuard;

/// Variable that chooses between `text` and `json`.
const FORMAT_VARIABLE: &str = "PERIGEE_LOG_FORMAT";

/// Sends what the program logs to standard error, or to `PROGRAM.log` in the given directory.
///
/// # Errors
/// A variable about logs cannot be understood.
pub(crate) fn start(
    settings: &LogSettings,
    program: &str,
    environment: &ProcessEnvironment,
) -> Result<LogGuard, FlagError> {
    let filter = filter::of(settings, environment)?;
    let json = wants_json(environment)?;
    let to_file = settings.directory.as_ref();
    let file = to_file.map(|folder| file::LogFile::new(folder, program, settings.rotate_bytes));
    let destinations = Destinations {
        file: file.is_some(),
        all_to_stderr: file.is_none() || settings.also_stderr,
        stderr_from: LogSeverity::of_number(settings.stderr_threshold),
    };
    let colours =
        file.is_none() && io::stderr().is_terminal() && environment.get("NO_COLOR").is_none();
    let (queue, guard) = LogQueue::start(file, destinations);
    let lines = tracing_subscriber::fmt::layer().with_writer(queue);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = if json {
        lines.json().with_ansi(false).with_filter(filter).boxed()
    } else {
        lines.with_ansi(colours).with_filter(filter).boxed()
    };
    // The program starts its log once; a second start in one process keeps the first.
    let _ = tracing_subscriber::registry().with(lines).try_init();
    Ok(guard)
}

fn wants_json(environment: &ProcessEnvironment) -> Result<bool, FlagError> {
    match environment.get(FORMAT_VARIABLE) {
        None | Some("text") => Ok(false),
        Some("json") => Ok(true),
        Some(other) => Err(FlagError::BadValue {
            name: "log format",
            value: other.chars().take(80).collect(),
            origin: Origin::Variable(FORMAT_VARIABLE.to_owned()),
            expected: "text or json".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_text_unless_json_is_asked_for() {
        let wants = |value| wants_json(&ProcessEnvironment::of(&[(FORMAT_VARIABLE, value)]));
        assert_eq!(wants(""), Ok(false));
        assert_eq!(wants("text"), Ok(false));
        assert_eq!(wants("json"), Ok(true));
        assert!(wants("xml").unwrap_err().to_string().contains(FORMAT_VARIABLE));
    }
}
