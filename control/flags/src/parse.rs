//! Command line arguments in gflags form. Invariant: the last of several values of one flag wins.
//!
//! Accepted: `--name=value`, `--name value`, `-name=value`, and for yes/no flags `--name`,
//! `--noname`; a flag that may stand alone is `--name` or `--name=value`. Dashes and underscores
//! inside names are equal. A yes/no flag followed by the word `true` or `false` takes it as its
//! value: gflags would silently drop that word. A program that takes words has them anywhere
//! between its flags; after `--` everything is a word.

use crate::error::FlagError;
use crate::flag::{Flag, ValueKind};
use crate::limits::ARGUMENTS_MAX;
use crate::program::Program;
use crate::settings::Origin;
use crate::value::shortened;
use std::iter::Peekable;

/// What the arguments ask for.
#[derive(Debug, PartialEq)]
pub(crate) enum ParsedArguments {
    Run { flags: Vec<(&'static Flag, String)>, words: Vec<String> },
    Help,
    Version,
}

/// Names that ask for the help text.
pub(crate) const HELP_NAMES: [&str; 5] = ["help", "helpshort", "helpfull", "helppackage", "h"];

/// Reads all arguments (without the program name).
pub(crate) fn read_arguments(
    program: &Program,
    arguments: &[String],
) -> Result<ParsedArguments, FlagError> {
    if arguments.len() > ARGUMENTS_MAX {
        return Err(FlagError::TooManyArguments { count: arguments.len(), max: ARGUMENTS_MAX });
    }
    let (mut flags, mut words) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter().map(String::as_str).peekable();
    while let Some(argument) = rest.next() {
        let body = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
        let Some(body) = body.filter(|body| !body.is_empty()) else {
            if program.words.is_empty() {
                return Err(FlagError::UnexpectedArgument { argument: shortened(argument) });
            }
            match argument {
                "--" => words.extend(rest.by_ref().map(str::to_owned)),
                word => words.push(word.to_owned()),
            }
            continue;
        };
        let (written, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        match written {
            "version" if value.is_none() => return Ok(ParsedArguments::Version),
            name if value.is_none() && HELP_NAMES.contains(&name) => {
                return Ok(ParsedArguments::Help);
            }
            _ => {}
        }
        flags.push(read_flag(program, written, value, &mut rest)?);
    }
    check_count(program, words.len())?;
    Ok(ParsedArguments::Run { flags, words })
}

/// The flag that was written, and its value: behind the `=`, in the next argument, or what its
/// presence means.
fn read_flag<'a>(
    program: &Program,
    written: &str,
    value: Option<&str>,
    rest: &mut Peekable<impl Iterator<Item = &'a str>>,
) -> Result<(&'static Flag, String), FlagError> {
    let (flag, negated) = find(program, written)?;
    let value = match value {
        Some(_) if negated => return Err(unknown(program, written)),
        Some(value) => value,
        None if negated => "false",
        None if flag.kind == ValueKind::Bool => {
            let word = rest.next_if(|next| matches!(*next, "true" | "false"));
            word.unwrap_or("true")
        }
        None => match flag.alone {
            Some(value) => value,
            None => rest.next().ok_or(FlagError::MissingValue { name: flag.name })?,
        },
    };
    Ok((flag, value.to_owned()))
}

fn check_count(program: &Program, count: usize) -> Result<(), FlagError> {
    if count == program.words.len() {
        return Ok(());
    }
    let usage = format!("{} {}", program.name, program.words.join(" "));
    Err(FlagError::WordCount { count, usage })
}

/// Finds the flag that a written name means, and whether it is the `no` form.
fn find(program: &Program, written: &str) -> Result<(&'static Flag, bool), FlagError> {
    let name = written.replace('-', "_");
    if let Some(flag) = program.find(&name) {
        return Ok((flag, false));
    }
    let positive = name.strip_prefix("no").and_then(|rest| program.find(rest));
    match positive {
        Some(flag) if flag.kind == ValueKind::Bool => Ok((flag, true)),
        _ => Err(unknown(program, written)),
    }
}

fn unknown(program: &Program, written: &str) -> FlagError {
    FlagError::Unknown {
        name: shortened(written),
        origin: Origin::CommandLine,
        suggestion: program.suggest(written),
    }
}
