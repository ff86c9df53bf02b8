//! One run of a tool: its settings are read, its report is begun, ended and printed here.
//! Invariant: what was measured is printed, however the run ends.

use std::collections::BTreeMap;
use std::io;

use perigee_flags::{
    Flag, ProcessEnvironment, Program, ProgramStart, Settings, ValueKind, duration_text,
};

use crate::error::BenchError;
use crate::facts::Machine;
use crate::report::{Report, bytes_text};
use crate::settings;
use crate::stop::Stop;

/// Where results go; progress and complaints go to standard error.
pub type Output<'a> = &'a mut dyn FnMut(&str) -> io::Result<()>;

/// Flags that say how a report is shown, not what was measured.
const SHOWN_ONLY: [&str; 3] = ["format", "progress", "unit"];
/// Variables of the data plane that change figures.
const VARIABLES: [&str; 3] = ["PERIGEE_REACTOR", "PERIGEE_SHARED_MEMORY", "PERIGEE_TCP_CONGESTION"];

/// A tool of `perigee bench`.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The word after `perigee bench`.
    pub(crate) name: &'static str,
    /// Its flags.
    pub(crate) program: Program,
    /// Examples of the help text.
    pub(crate) examples: &'static [&'static str],
    /// The work.
    pub(crate) run: fn(Run<'_>) -> Result<(), BenchError>,
}

/// A started tool.
pub(crate) struct Run<'a> {
    /// What the user asked for.
    pub(crate) settings: Settings,
    tool: &'static Tool,
    output: Output<'a>,
}

impl Tool {
    /// Reads the settings and runs.
    pub(crate) fn start(
        &'static self,
        arguments: &[String],
        environment: &ProcessEnvironment,
        output: Output<'_>,
    ) -> Result<(), BenchError> {
        let read = read(&self.program, self.examples, arguments, environment, output)?;
        let Some(settings) = read else { return Ok(()) };
        (self.run)(Run { settings, tool: self, output })
    }
}

/// The settings of a start; `None` if it only asked for a text, which is printed.
pub(crate) fn read(
    program: &Program,
    examples: &[&str],
    arguments: &[String],
    environment: &ProcessEnvironment,
    output: Output<'_>,
) -> Result<Option<Settings>, BenchError> {
    let settings = match program.load(arguments, environment)? {
        ProgramStart::Print(text) => {
            output(&with_examples(&text, examples))?;
            return Ok(None);
        }
        ProgramStart::Run(settings) => settings,
    };
    for warning in settings.warnings() {
        eprintln!("warning: {warning}");
    }
    Ok(Some(settings))
}

/// A program's help with examples after its first line; a version text stays as it is.
pub(crate) fn with_examples(text: &str, examples: &[&str]) -> String {
    let Some((summary, rest)) = text.split_once("\n\n") else {
        return text.to_owned();
    };
    let lines: String = examples.iter().map(|line| format!("  {line}\n")).collect();
    format!("{summary}\n\nExamples:\n{lines}\n{rest}")
}

impl Run<'_> {
    /// Takes the rows of a report and prints it, whole or not.
    pub(crate) fn measure(
        self,
        take: impl FnOnce(&Settings, &Stop, &mut Report) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let stop = Stop::on_signals()?;
        let echo = written(&self.tool.program, &self.settings);
        let mut report = Report::begin(self.tool.name, Machine::here(), echo);
        let outcome = stop.excuse(take(&self.settings, &stop, &mut report));
        report.end(&outcome);
        let (format, unit) = (settings::format(&self.settings), settings::unit(&self.settings));
        (self.output)(&report.print(format, unit))?;
        outcome
    }

    /// Serves the other end of a run until a signal comes.
    pub(crate) fn serve(
        self,
        serve: impl FnOnce(&Stop, Output<'_>) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        serve(&Stop::on_signals()?, self.output)
    }

    /// Prints a text.
    pub(crate) fn print(self, text: &str) -> Result<(), BenchError> {
        Ok((self.output)(text)?)
    }
}

/// What a report says of settings: all that have a value, as they would be written, and the
/// variables that change figures.
pub(crate) fn written(program: &Program, settings: &Settings) -> BTreeMap<String, String> {
    let flags = program
        .flags()
        .filter(|flag| !SHOWN_ONLY.contains(&flag.name))
        .map(|flag| (flag.name.to_owned(), value(flag, settings)));
    let variables =
        VARIABLES.iter().map(|name| ((*name).to_owned(), std::env::var(name).unwrap_or_default()));
    flags.chain(variables).filter(|(_, value)| !value.is_empty()).collect()
}

fn value(flag: &Flag, settings: &Settings) -> String {
    match flag.kind {
        ValueKind::Bool => settings.bool(flag.name).to_string(),
        ValueKind::Text => settings.text(flag.name).to_owned(),
        ValueKind::Double => settings.number(flag.name).to_string(),
        ValueKind::DurationMs => duration_text(settings.integer(flag.name)),
        ValueKind::SizeBytes => bytes_text(settings.integer(flag.name)),
        ValueKind::Int32 | ValueKind::Uint32 | ValueKind::Int64 | ValueKind::Uint64 => {
            settings.integer::<i128>(flag.name).to_string()
        }
    }
}
