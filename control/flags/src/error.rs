//! What is wrong with the settings of a start. Invariant: each message names the setting, where it
//! came from, and what to write instead.

use crate::origin::Origin;
use std::path::PathBuf;

/// Process exit code for every error of this kind (wrong usage).
pub const USAGE_EXIT_CODE: u8 = 2;

/// A start refused because of its settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// No flag or file key has this name.
    #[error("Unknown setting `{name}` ({origin}){}; --help lists all settings", did_you_mean(.suggestion))]
    Unknown {
        /// The name as written, without dashes.
        name: String,
        /// Where it was written.
        origin: Origin,
        /// The closest known name.
        suggestion: Option<&'static str>,
    },
    /// A flag that needs a value came last or before another flag.
    #[error("Flag `--{name}` needs a value; write --{name}=VALUE")]
    MissingValue {
        /// Flag name.
        name: &'static str,
    },
    /// The value cannot be read or lies outside the accepted range.
    #[error("Setting `{name}` cannot be `{value}` ({origin}); give {expected}")]
    BadValue {
        /// Setting name.
        name: &'static str,
        /// The value as written, shortened.
        value: String,
        /// Where it was written.
        origin: Origin,
        /// Values that the flag accepts, in words.
        expected: String,
    },
    /// An argument that is not a flag.
    #[error("Unexpected argument `{argument}`; settings are written --name=value")]
    UnexpectedArgument {
        /// The argument as written, shortened.
        argument: String,
    },
    /// Too few or too many words beside the flags.
    #[error("{count} words given beside the settings; write {usage}")]
    WordCount {
        /// Words given.
        count: usize,
        /// The program with the words it wants.
        usage: String,
    },
    /// More arguments than any sensible start has.
    #[error("{count} arguments given; at most {max} are accepted")]
    TooManyArguments {
        /// Arguments given.
        count: usize,
        /// Arguments accepted.
        max: usize,
    },
    /// The configuration file cannot be read.
    #[error("Configuration file {} cannot be read: {cause}", .path.display())]
    FileUnreadable {
        /// File path.
        path: PathBuf,
        /// Cause reported by the system.
        cause: String,
    },
    /// The configuration file is not what its extension says.
    #[error("Configuration file {} is refused: {cause}", .path.display())]
    FileMalformed {
        /// File path.
        path: PathBuf,
        /// What is wrong and where.
        cause: String,
    },
    /// A guarantee about data is asked for that this version does not give.
    #[error(
        "Setting `{name}={value}` needs what is not built yet: {feature}; leave it out, or start without that with \
         --allow_unbuilt"
    )]
    NotBuilt {
        /// Setting name.
        name: &'static str,
        /// The value asked for.
        value: String,
        /// Name of the feature that is not built.
        feature: &'static str,
    },
    /// Two settings do not go together.
    #[error("{0}")]
    Conflict(String),
}

impl FlagError {
    /// Process exit code that belongs to this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        USAGE_EXIT_CODE
    }
}

fn did_you_mean(suggestion: &Option<&'static str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
