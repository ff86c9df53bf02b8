//! All outcomes, for people and for programs. Invariant: a finding is always shown with its fix.

use super::checks::Check;
use super::finding::{CheckOutcome, Finding, Severity};
use super::host::HostFacts;
use super::peers;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Version of the JSON document. Fields are only ever added; one that goes or changes makes it the
/// next.
pub(super) const JSON_VERSION: u32 = 1;

/// Outcomes of the checks that were run.
pub(super) struct DoctorReport {
    pub(super) outcomes: Vec<(&'static Check, CheckOutcome)>,
}

impl DoctorReport {
    /// The worst finding, if there is any.
    pub(super) fn worst(&self) -> Option<Severity> {
        self.findings().map(|(_, finding)| finding.severity).max()
    }

    pub(super) fn findings(&self) -> impl Iterator<Item = (&'static Check, &Finding)> {
        self.outcomes.iter().flat_map(|(check, outcome)| {
            let findings: &[Finding] = match outcome {
                CheckOutcome::Checked(findings) => findings,
                CheckOutcome::Skipped(_) => &[],
            };
            findings.iter().map(move |finding| (*check, finding))
        })
    }

    /// Findings, the worst first; with `is_verbose` also what is right and what was not looked at.
    pub(super) fn text(&self, is_verbose: bool) -> String {
        let mut text = self.summary();
        for severity in [Severity::Failure, Severity::Warning] {
            for (check, finding) in self.findings().filter(|(_, one)| one.severity == severity) {
                let word = word(severity);
                let Finding { subject, message, fix, .. } = finding;
                let _ = write!(
                    text,
                    "\n{word:<8} {}: {subject}: {message}\n         fix: {fix}\n",
                    check.name
                );
            }
        }
        if is_verbose {
            text.push_str(&self.rest());
        }
        text
    }

    fn summary(&self) -> String {
        let count = |severity| self.findings().filter(|(_, one)| one.severity == severity).count();
        let skipped = self.outcomes.iter().filter(|(_, outcome)| is_skipped(outcome)).count();
        format!(
            "Checks {}, failures {}, warnings {}, not applicable here {skipped}\n",
            self.outcomes.len(),
            count(Severity::Failure),
            count(Severity::Warning)
        )
    }

    fn rest(&self) -> String {
        let mut text = String::from("\n");
        for (check, outcome) in &self.outcomes {
            let _ = match outcome {
                CheckOutcome::Checked(findings) if findings.is_empty() => {
                    writeln!(text, "ok       {}: {}", check.name, check.about)
                }
                CheckOutcome::Checked(_) => Ok(()),
                CheckOutcome::Skipped(why) => writeln!(text, "-        {}: {why}", check.name),
            };
        }
        text
    }

    /// One document (`tools/cli/doctor.md`): `status`, every check with its findings, and facts for
    /// others' doctors.
    pub(super) fn json(&self, host: &HostFacts) -> String {
        let status = self.worst().map_or("ok", word_of_program);
        let checks = self.outcomes.iter().map(|(check, outcome)| match outcome {
            CheckOutcome::Skipped(why) => {
                json!({ "check": check.name, "status": "skipped", "reason": why, "findings": [] })
            }
            CheckOutcome::Checked(findings) => {
                let worst = findings.iter().map(|finding| finding.severity).max();
                json!({
                    "check": check.name,
                    "status": worst.map_or("ok", word_of_program),
                    "findings": findings.iter().map(finding_json).collect::<Vec<_>>(),
                })
            }
        });
        let document = json!({
            "version": JSON_VERSION,
            "status": status,
            "checks": checks.collect::<Vec<_>>(),
            "facts": peers::facts(host),
        });
        format!("{document:#}\n")
    }
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "severity": word_of_program(finding.severity),
        "subject": finding.subject,
        "message": finding.message,
        "fix": finding.fix,
    })
}

fn is_skipped(outcome: &CheckOutcome) -> bool {
    matches!(outcome, CheckOutcome::Skipped(_))
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Failure => "FAILED",
        Severity::Warning => "WARNING",
    }
}

fn word_of_program(severity: Severity) -> &'static str {
    match severity {
        Severity::Failure => "failed",
        Severity::Warning => "degraded",
    }
}
