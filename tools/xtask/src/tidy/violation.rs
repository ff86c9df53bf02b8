//! One broken rule, as it is printed.

use std::fmt;

/// One broken rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    pub(crate) file: String,
    /// Counted from 1; 0 when the finding is about the whole file.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl Violation {
    pub(super) fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.into(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line.max(1), self.message)
    }
}
