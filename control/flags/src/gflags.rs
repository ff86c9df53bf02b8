//! The flags of gflags itself that stand for other flags: files of flags, flags of the environment,
//! names that need not be known.
//! Invariant: what they stand for is read where they stand, so the last value still wins, and a
//! mistake in it is reported with its file or variable.

use crate::environment::ProcessEnvironment;
use crate::error::FlagError;
use crate::file::read_bounded;
use crate::limits::{ARGUMENTS_MAX, FLAG_FILES_MAX};
use crate::origin::Origin;
use crate::value::shortened;
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;

/// The names of these flags.
pub(crate) const NAMES: [&str; 4] = ["flagfile", "fromenv", "tryfromenv", "undefok"];

/// One argument, and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// All arguments of a start.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct GivenArguments {
    pub(crate) list: Vec<Argument>,
    /// Unknown flags that are passed over.
    pub(crate) may_be_unknown: BTreeSet<String>,
}

impl GivenArguments {
    /// Puts what these flags stand for in their place.
    pub(crate) fn read(
        given: &[String],
        environment: &ProcessEnvironment,
    ) -> Result<Self, FlagError> {
        let argument = |text: &String| Argument { text: text.clone(), origin: Origin::CommandLine };
        let mut rest: VecDeque<Argument> = given.iter().map(argument).collect();
        let (mut all, mut files) = (Self::default(), 0);
        while let Some(argument) = rest.pop_front() {
            if all.list.len() + rest.len() >= ARGUMENTS_MAX {
                let count = all.list.len() + rest.len() + 1;
                return Err(FlagError::TooManyArguments { count, max: ARGUMENTS_MAX });
            }
            if argument.text == "--" {
                all.list.push(argument);
                all.list.extend(rest);
                break;
            }
            let Some((name, value)) = own_flag(&argument.text) else {
                all.list.push(argument);
                continue;
            };
            let value = match value {
                Some(value) => value.to_owned(),
                None => rest.pop_front().ok_or(FlagError::MissingValue { name })?.text,
            };
            let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
            let mut found = Vec::new();
            for part in parts {
                match name {
                    "flagfile" => {
                        files += 1;
                        found.extend(flags_of_file(part, files)?);
                    }
                    "undefok" => {
                        all.may_be_unknown.insert(part.replace('-', "_"));
                    }
                    _ => found.extend(flag_of_environment(part, name, environment)?),
                }
            }
            found.into_iter().rev().for_each(|argument| rest.push_front(argument));
        }
        Ok(all)
    }
}

/// The name of one of these flags, and the value behind its `=`.
fn own_flag(argument: &str) -> Option<(&'static str, Option<&str>)> {
    let body = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
    let (written, value) = match body.split_once('=') {
        Some((written, value)) => (written, Some(value)),
        None => (body, None),
    };
    let name = NAMES.into_iter().find(|name| *name == written)?;
    Some((name, value))
}

/// The flags of a file, one a line; empty lines and those that begin with `#` are left out.
fn flags_of_file(path: &str, number: usize) -> Result<Vec<Argument>, FlagError> {
    let path = PathBuf::from(path);
    let refused = |cause: String| FlagError::FileMalformed { path: path.clone(), cause };
    if number > FLAG_FILES_MAX {
        return Err(refused(format!("a start reads at most {FLAG_FILES_MAX} files of flags")));
    }
    let text = read_bounded(&path)?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let flag = |(at, line): (usize, &str)| match line.starts_with('-') {
        true => Ok(Argument { text: line.to_owned(), origin: Origin::File(path.clone()) }),
        // gflags takes it for the names of programs that the lines below are for.
        false => Err(refused(format!(
            "line {} is `{}`; write one flag in each line, --name=value",
            at + 1,
            shortened(line)
        ))),
    };
    lines.map(flag).collect()
}

/// The flag that a variable gives a value, as gflags names the variable.
fn flag_of_environment(
    name: &str,
    asked_by: &str,
    environment: &ProcessEnvironment,
) -> Result<Option<Argument>, FlagError> {
    let variable = format!("FLAGS_{name}");
    match environment.get(&variable) {
        Some(value) => {
            let text = format!("--{name}={value}");
            Ok(Some(Argument { text, origin: Origin::Variable(variable) }))
        }
        None if asked_by == "tryfromenv" => Ok(None),
        None => Err(FlagError::Conflict(format!(
            "--fromenv asks for {}, which is not set; set it, or write --tryfromenv={}",
            shortened(&variable),
            shortened(name)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[&str], variables: &[(&str, &str)]) -> Result<GivenArguments, String> {
        let given: Vec<String> = given.iter().map(|argument| (*argument).to_owned()).collect();
        let read = GivenArguments::read(&given, &ProcessEnvironment::of(variables));
        read.map_err(|error| error.to_string())
    }

    fn texts(arguments: &GivenArguments) -> Vec<&str> {
        arguments.list.iter().map(|argument| argument.text.as_str()).collect()
    }

    #[test]
    fn files_of_flags_are_read_where_they_stand() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (outer, inner) = (path("outer"), path("inner"));
        std::fs::write(&inner, "--b=2\n").unwrap();
        let text = format!("# a comment\n\n  --a=1  \n-flagfile={inner}\n--c\n");
        std::fs::write(&outer, text).unwrap();
        let found = read(&["--x=1", "--flagfile", &outer, "--y"], &[]).unwrap();
        assert_eq!(texts(&found), ["--x=1", "--a=1", "--b=2", "--c", "--y"]);
        assert_eq!(found.list[2].origin, Origin::File(inner.clone().into()));
        let both = format!("--flagfile={inner},{inner}");
        assert_eq!(texts(&read(&[&both], &[]).unwrap()), ["--b=2", "--b=2"]);
        assert_eq!(texts(&read(&["--", &both], &[]).unwrap()), ["--", &both]);
    }

    #[test]
    fn files_of_flags_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flags").display().to_string();
        let flag = format!("--flagfile={path}");
        assert!(read(&[&flag], &[]).unwrap_err().contains(&path));
        std::fs::write(&path, "--a=1\nmooncake_master\n").unwrap();
        let message = read(&[&flag], &[]).unwrap_err();
        assert!(message.contains("line 2") && message.contains("mooncake_master"), "{message}");
        std::fs::write(&path, &flag).unwrap();
        assert!(read(&[&flag], &[]).unwrap_err().contains("at most"), "it names itself");
        assert!(read(&["--flagfile"], &[]).unwrap_err().contains("--flagfile=VALUE"));
    }

    #[test]
    fn flags_of_the_environment_are_read_if_they_are_asked_for() {
        let variables = [("FLAGS_port", "7"), ("FLAGS_other", "8")];
        let found = read(&["--fromenv=port", "--tryfromenv=none,port"], &variables).unwrap();
        assert_eq!(texts(&found), ["--port=7", "--port=7"]);
        assert_eq!(found.list[0].origin, Origin::Variable("FLAGS_port".to_owned()));
        let message = read(&["--fromenv=port,none"], &variables).unwrap_err();
        assert!(message.contains("FLAGS_none") && message.contains("--tryfromenv=none"));
    }
}
