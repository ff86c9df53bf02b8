//! The environment of a start as a value. Invariant: settings never read the process environment
//! behind the caller's back, so tests need no process-wide state.

use std::collections::BTreeMap;

/// Environment variables by name.
#[derive(Debug, Clone, Default)]
pub struct ProcessEnvironment {
    variables: BTreeMap<String, String>,
}

impl ProcessEnvironment {
    /// Variables of this process; names or values that are not Unicode are left out.
    #[must_use]
    pub fn of_process() -> Self {
        let readable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { variables: std::env::vars_os().filter_map(readable).collect() }
    }

    /// Variables from a list.
    #[must_use]
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self { variables: pairs.iter().map(owned).collect() }
    }

    /// Value of one variable; an empty value counts as not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Names that begin with `prefix`.
    pub fn names_with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.variables.keys().map(String::as_str).filter(move |name| name.starts_with(prefix))
    }
}
