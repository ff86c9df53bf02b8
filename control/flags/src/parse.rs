//! Command line arguments in gflags form. Invariant: the last of several values of one flag wins.
//!
//! Accepted: `--name=value`, `--name value`, `-name=value`, and for yes/no flags `--name`,
//! `--noname`; a flag that may stand alone is `--name` or `--name=value`. Dashes and underscores
//! inside names are equal. A yes/no flag followed by the word `true` or `false` takes it as its
//! value: gflags would silently drop that word. A program that takes words has them anywhere
//! between its flags; after `--` everything is a word.

use crate::error::FlagError;
use crate::flag::{Flag, ValueKind};
use crate::gflags::{Argument, GivenArguments};
use crate::origin::Origin;
use crate::program::Program;
use crate::value::shortened;
use std::iter::Peekable;

/// What the arguments ask for.
#[derive(Debug, PartialEq)]
pub(crate) enum ParsedArguments {
    Run {
        flags: Vec<(&'static Flag, String, Origin)>,
        words: Vec<String>,
    },
    Help,
    /// The flags in which this word occurs.
    HelpOn(String),
    Version,
}

/// Names that ask for the help text.
pub(crate) const HELP_NAMES: [&str; 5] = ["help", "helpshort", "helpfull", "helppackage", "h"];
/// Names that ask for the flags in which a word occurs.
const MATCH_NAMES: [&str; 2] = ["helpmatch", "helpon"];
/// Flags of gflags for other programs, not for people.
const OTHER_FORMS: [&str; 3] = ["helpxml", "tab_completion_word", "tab_completion_columns"];

/// Reads all arguments (without the program name).
pub(crate) fn read_arguments(
    program: &Program,
    arguments: &GivenArguments,
) -> Result<ParsedArguments, FlagError> {
    let (mut flags, mut words) = (Vec::new(), Vec::new());
    let mut rest = arguments.list.iter().peekable();
    while let Some(Argument { text: argument, origin }) = rest.next() {
        let body = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
        let Some(body) = body.filter(|body| !body.is_empty()) else {
            if program.words.is_empty() {
                return Err(FlagError::UnexpectedArgument { argument: shortened(argument) });
            }
            match argument.as_str() {
                "--" => words.extend(rest.by_ref().map(|word| word.text.clone())),
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
            name if MATCH_NAMES.contains(&name) => {
                let next = || rest.next().map(|word| word.text.clone());
                let word = value.map(str::to_owned).or_else(next);
                let missing = FlagError::MissingValue { name: MATCH_NAMES[0] };
                return word.map(ParsedArguments::HelpOn).ok_or(missing);
            }
            name if OTHER_FORMS.contains(&name) => {
                return Err(FlagError::Conflict(format!(
                    "--{name} is not built; --help lists all settings as text"
                )));
            }
            _ => {}
        }
        if arguments.passes_over(program, written) {
            continue;
        }
        let (flag, value) = read_flag(program, (written, origin), value, &mut rest)?;
        flags.push((flag, value, origin.clone()));
    }
    check_count(program, words.len())?;
    Ok(ParsedArguments::Run { flags, words })
}

/// The flag that was written, and its value: behind the `=`, in the next argument, or what its
/// presence means.
fn read_flag<'a>(
    program: &Program,
    (written, origin): (&str, &Origin),
    value: Option<&str>,
    rest: &mut Peekable<impl Iterator<Item = &'a Argument>>,
) -> Result<(&'static Flag, String), FlagError> {
    let Some((flag, negated)) = find(program, written) else {
        return Err(unknown(program, written, origin));
    };
    let value = match value {
        Some(_) if negated => return Err(unknown(program, written, origin)),
        Some(value) => value,
        None if negated => "false",
        None if flag.kind == ValueKind::Bool => {
            let word = rest.next_if(|next| matches!(next.text.as_str(), "true" | "false"));
            word.map_or("true", |word| &word.text)
        }
        None => match flag.alone {
            Some(value) => value,
            None => &rest.next().ok_or(FlagError::MissingValue { name: flag.name })?.text,
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
fn find(program: &Program, written: &str) -> Option<(&'static Flag, bool)> {
    let name = written.replace('-', "_");
    if let Some(flag) = program.find(&name) {
        return Some((flag, false));
    }
    let positive = name.strip_prefix("no").and_then(|rest| program.find(rest));
    positive.filter(|flag| flag.kind == ValueKind::Bool).map(|flag| (flag, true))
}

impl GivenArguments {
    /// Whether a flag is unknown and was said to be so.
    fn passes_over(&self, program: &Program, written: &str) -> bool {
        let name = written.replace('-', "_");
        let is_named = |name: &str| self.may_be_unknown.contains(name);
        (is_named(&name) || name.strip_prefix("no").is_some_and(is_named))
            && find(program, written).is_none()
    }
}

fn unknown(program: &Program, written: &str, origin: &Origin) -> FlagError {
    FlagError::Unknown {
        name: shortened(written),
        origin: origin.clone(),
        suggestion: program.suggest(written),
    }
}
