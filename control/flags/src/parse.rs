//! Command line arguments in gflags form. Invariant: the last of several values of one flag wins.
//!
//! Accepted: `--name=value`, `--name value`, `-name=value`, and for yes/no flags `--name`,
//! `--noname`. Dashes and underscores inside names are equal. A yes/no flag followed by the word
//! `true` or `false` takes it as its value: gflags would silently drop that word.

use crate::error::FlagError;
use crate::flag::{Flag, Kind};
use crate::limits::ARGUMENTS_MAX;
use crate::program::Program;
use crate::settings::Origin;
use crate::value::shortened;

/// What the arguments ask for.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Run(Vec<(&'static Flag, String)>),
    Help,
    Version,
}

/// Names that ask for the help text.
pub(crate) const HELP_NAMES: [&str; 5] = ["help", "helpshort", "helpfull", "helppackage", "h"];

/// Reads all arguments (without the program name).
pub(crate) fn read_arguments(
    program: &Program,
    arguments: &[String],
) -> Result<Request, FlagError> {
    if arguments.len() > ARGUMENTS_MAX {
        return Err(FlagError::TooManyArguments {
            count: arguments.len(),
            max: ARGUMENTS_MAX,
        });
    }
    let mut given = Vec::new();
    let mut rest = arguments.iter().map(String::as_str).peekable();
    while let Some(argument) = rest.next() {
        let body = argument
            .strip_prefix("--")
            .or_else(|| argument.strip_prefix('-'));
        let Some(body) = body.filter(|body| !body.is_empty()) else {
            return Err(FlagError::UnexpectedArgument {
                argument: shortened(argument),
            });
        };
        let (written, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        match written {
            "version" if value.is_none() => return Ok(Request::Version),
            name if value.is_none() && HELP_NAMES.contains(&name) => return Ok(Request::Help),
            _ => {}
        }
        let (flag, negated) = find(program, written)?;
        let value = match value {
            Some(_) if negated => return Err(unknown(program, written)),
            Some(value) => value.to_owned(),
            None if negated => "false".to_owned(),
            None if flag.kind == Kind::Bool => {
                let word = rest.next_if(|next| matches!(*next, "true" | "false"));
                word.unwrap_or("true").to_owned()
            }
            None => match rest.next() {
                Some(value) => value.to_owned(),
                None => return Err(FlagError::MissingValue { name: flag.name }),
            },
        };
        given.push((flag, value));
    }
    Ok(Request::Run(given))
}

/// Finds the flag that a written name means, and whether it is the `no` form.
fn find(program: &Program, written: &str) -> Result<(&'static Flag, bool), FlagError> {
    let name = written.replace('-', "_");
    if let Some(flag) = program.find(&name) {
        return Ok((flag, false));
    }
    let positive = name.strip_prefix("no").and_then(|rest| program.find(rest));
    match positive {
        Some(flag) if flag.kind == Kind::Bool => Ok((flag, true)),
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
