//! The one way to read the settings of a start: defaults, file, variables, command line.
//! Invariant: the later of them wins, and a name that no flag answers to is never passed over in
//! silence.

use crate::environment::ProcessEnvironment;
use crate::error::FlagError;
use crate::file::read_pairs;
use crate::flag::{Flag, ValueKind};
use crate::gflags::{self, GivenArguments};
use crate::help::{help_on, help_text, version_text};
use crate::origin::Origin;
use crate::parse::{ParsedArguments, read_arguments};
use crate::program::{CONFIG_PATH, Program};
use crate::settings::{Setting, Settings};
use crate::value::{parse_value, shortened};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a start should do.
#[derive(Debug)]
pub enum ProgramStart {
    /// Run with these settings.
    Run(Settings),
    /// Print this text on standard output and exit with 0.
    Print(String),
}

impl Program {
    /// Reads all settings of a start. `arguments` is without the program name.
    ///
    /// # Errors
    /// Any unknown name, unreadable value or unreadable file.
    pub fn load(
        &self,
        arguments: &[String],
        environment: &ProcessEnvironment,
    ) -> Result<ProgramStart, FlagError> {
        let arguments = GivenArguments::read(arguments, environment)?;
        let (given, words) = match read_arguments(self, &arguments)? {
            ParsedArguments::Help => return Ok(ProgramStart::Print(help_text(self))),
            ParsedArguments::HelpOn(word) => {
                return Ok(ProgramStart::Print(help_on(self, &word)));
            }
            ParsedArguments::Version => return Ok(ProgramStart::Print(version_text(self))),
            ParsedArguments::Run { flags, words } => (flags, words),
        };
        let mut settings = self.defaults()?;
        let mut warnings = Vec::new();
        let from_variables = self.read_variables(environment, &mut warnings);
        if let Some(path) = self.config_path(&given, &from_variables) {
            self.apply_file(&mut settings, PathBuf::from(path))?;
        }
        for (flag, value, variable) in from_variables {
            apply(&mut settings, flag, &value, Origin::Variable(variable))?;
        }
        for (flag, value, origin) in given {
            apply(&mut settings, flag, &value, origin)?;
        }
        settings.words = words;
        settings.warnings = warnings;
        settings.check_guarantees()?;
        settings.warn_about_states();
        Ok(ProgramStart::Run(settings))
    }

    fn defaults(&self) -> Result<Settings, FlagError> {
        let entry = |flag: &'static Flag| {
            let value = parse_value(flag, flag.default, &Origin::Default)?;
            let default = value.clone();
            Ok((flag.name, Setting { flag, value, default, origin: Origin::Default }))
        };
        let entries = self.flags().map(entry).collect::<Result<BTreeMap<_, _>, FlagError>>()?;
        Ok(Settings { entries, words: Vec::new(), warnings: Vec::new() })
    }

    /// Values from the environment: own prefix first, then the flag's other variables.
    fn read_variables(
        &self,
        environment: &ProcessEnvironment,
        warnings: &mut Vec<String>,
    ) -> Vec<(&'static Flag, String, String)> {
        let mut found = Vec::new();
        for flag in self.flags() {
            let own = format!("{}{}", self.variable_prefix, flag.name.to_ascii_uppercase());
            let candidates =
                std::iter::once(own).chain(flag.variables.iter().map(|name| (*name).to_owned()));
            for variable in candidates {
                let Some(value) = environment.get(&variable) else {
                    continue;
                };
                if is_service_link(flag, value) {
                    warnings.push(format!(
                        "Environment variable {variable} looks like a Kubernetes service link and is not used"
                    ));
                    continue;
                }
                found.push((flag, value.to_owned(), variable));
                break;
            }
        }
        warnings.extend(self.unknown_variables(environment));
        found
    }

    /// Warnings for variables with the program's prefix that no flag reads. They are not refused:
    /// container platforms put names of their own next to ours.
    fn unknown_variables(&self, environment: &ProcessEnvironment) -> Vec<String> {
        let prefix = self.variable_prefix;
        let unknown = environment.names_with_prefix(prefix).filter_map(|variable| {
            let name = variable[prefix.len()..].to_ascii_lowercase();
            let platform = name.starts_with("service_") || name.starts_with("port_");
            if platform || self.find(&name).is_some() {
                return None;
            }
            let hint = self.suggest(&name).map_or_else(String::new, |known| {
                format!("; did you mean {prefix}{}?", known.to_ascii_uppercase())
            });
            Some(format!("Environment variable {variable} is not a setting{hint}"))
        });
        unknown.collect()
    }

    fn config_path(
        &self,
        given: &[(&'static Flag, String, Origin)],
        variables: &[(&'static Flag, String, String)],
    ) -> Option<String> {
        let flag = given.iter().rev().find(|(flag, ..)| flag.name == CONFIG_PATH);
        let variable = variables.iter().find(|(flag, ..)| flag.name == CONFIG_PATH);
        let path = flag.map(|(_, path, _)| path).or(variable.map(|(_, path, _)| path))?;
        Some(path.clone()).filter(|path| !path.is_empty())
    }

    fn apply_file(&self, settings: &mut Settings, path: PathBuf) -> Result<(), FlagError> {
        for (key, value) in read_pairs(&path)? {
            let origin = Origin::File(path.clone());
            match self.find(&key.replace('-', "_")).filter(|flag| flag.name != CONFIG_PATH) {
                Some(flag) => apply(settings, flag, &value, origin)?,
                None => {
                    // A file cannot name another one.
                    let suggestion = self.suggest(&key).filter(|known| *known != CONFIG_PATH);
                    return Err(FlagError::Unknown { name: shortened(&key), origin, suggestion });
                }
            }
        }
        Ok(())
    }
}

/// Kubernetes writes `NAME_PORT=tcp://10.0.0.1:50051` for a service called `name`, which collides
/// with a flag called `port`.
fn is_service_link(flag: &Flag, value: &str) -> bool {
    let is_integer = !matches!(flag.kind, ValueKind::Text | ValueKind::Bool | ValueKind::Double);
    is_integer && ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme))
}

fn apply(
    settings: &mut Settings,
    flag: &'static Flag,
    text: &str,
    origin: Origin,
) -> Result<(), FlagError> {
    if gflags::NAMES.contains(&flag.name) {
        return Err(FlagError::Conflict(format!(
            "`{}` can be given on the command line only, not in {origin}",
            flag.name
        )));
    }
    let value = parse_value(flag, text, &origin)?;
    if let Some(entry) = settings.entries.get_mut(flag.name) {
        entry.value = value;
        entry.origin = origin;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
