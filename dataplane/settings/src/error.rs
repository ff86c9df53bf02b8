//! Why a setting cannot be used.

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value:?}; {allowed}")]
pub struct SettingError {
    /// The variable or argument.
    pub name: &'static str,
    /// Its value, as it was written.
    pub value: String,
    /// What to write instead.
    pub allowed: String,
}

impl SettingError {
    /// A value of `name` that is not what `allowed` says.
    pub fn new(name: &'static str, value: &str, allowed: impl Into<String>) -> Self {
        Self { name, value: value.to_owned(), allowed: allowed.into() }
    }
}
