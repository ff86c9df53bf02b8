//! Why a setting cannot be used. Invariant: every message names the setting, its value and what to
//! write instead.

/// A variable or argument whose value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} {value:?} cannot be used: {reason}")]
pub struct SettingError {
    /// The variable or argument.
    pub name: &'static str,
    /// Its value, as it was written.
    pub value: String,
    /// What is wrong with it and what to write instead.
    pub reason: String,
}

impl SettingError {
    /// A value of `name` that cannot be used for this reason.
    pub fn new(name: &'static str, value: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { name, value: value.into(), reason: reason.into() }
    }
}
