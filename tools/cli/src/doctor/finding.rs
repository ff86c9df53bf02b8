//! What a check found. Invariant: every finding says what is wrong with what, and what to do.

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// It works, slower or less safely than it could.
    Warning,
    /// Something does not work, or will not when it is needed.
    Failure,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// The device, file or setting.
    pub(super) subject: String,
    /// What is wrong with it and why that matters.
    pub(super) message: String,
    /// A command or setting that puts it right.
    pub(super) fix: String,
}

impl Finding {
    pub(super) fn failure(
        subject: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Failure,
            subject: subject.into(),
            message: message.into(),
            fix: fix.into(),
        }
    }

    pub(super) fn warning(
        subject: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::failure(subject, message, fix) }
    }
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CheckOutcome {
    /// Looked at; empty means that nothing is wrong.
    Checked(Vec<Finding>),
    /// There is nothing to look at, or it cannot be read.
    Skipped(&'static str),
}

impl CheckOutcome {
    pub(super) fn fine() -> Self {
        Self::Checked(Vec::new())
    }

    pub(super) fn of(findings: impl IntoIterator<Item = Finding>) -> Self {
        Self::Checked(findings.into_iter().collect())
    }
}
