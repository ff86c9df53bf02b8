//! The packages of `Cargo.lock` against a dated snapshot of the RustSec advisories about them.
//! Invariant: a package that the snapshot does not know is a finding, so no package goes unchecked.
//! Advisories that we live with are in `deny.toml`, each with its reason; one that concerns nothing
//! any more is a finding, too.

use std::collections::{BTreeMap, BTreeSet};

use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::repository::{Repository, RepositoryError};

const LOCK: &str = "Cargo.lock";
const SNAPSHOT: &str = "tools/advisories/snapshot.json";
const ACCEPTED: &str = "deny.toml";

/// Advisories about a list of packages, as of a day. `tools/advisories/refresh.py` writes it.
#[derive(Debug, Deserialize)]
struct AdvisorySnapshot {
    date: String,
    packages: BTreeSet<String>,
    advisories: Vec<Advisory>,
}

#[derive(Debug, Deserialize)]
struct Advisory {
    id: String,
    package: String,
    /// Version requirements of what is not affected.
    safe: Vec<String>,
}

/// What came of the check.
pub(crate) struct AdvisoryReport {
    /// Day of the snapshot.
    pub(crate) date: String,
    pub(crate) packages: usize,
    pub(crate) findings: Vec<String>,
}

/// Checks the packages that come from a registry.
pub(crate) fn run(repository: &Repository) -> Result<AdvisoryReport, RepositoryError> {
    let read = |file: &str| Ok(repository.text(file)?.unwrap_or_default());
    let (lock, snapshot, accepted): (String, String, String) =
        (read(LOCK)?, read(SNAPSHOT)?, read(ACCEPTED)?);
    check(&lock, &snapshot, &accepted)
}

fn check(lock: &str, snapshot: &str, accepted: &str) -> Result<AdvisoryReport, RepositoryError> {
    let snapshot: AdvisorySnapshot =
        serde_json::from_str(snapshot).map_err(|error| wrong(SNAPSHOT, &error))?;
    let locked = packages(lock)?;
    let accepted = accepted_ids(accepted);
    let mut findings: Vec<String> = locked
        .keys()
        .filter(|name| !snapshot.packages.contains(**name))
        .map(|name| format!("{name} is not in the snapshot of {}: refresh it", snapshot.date))
        .collect();
    let mut open = BTreeSet::new();
    for advisory in &snapshot.advisories {
        let safe = requirements(advisory)?;
        for version in locked.get(advisory.package.as_str()).into_iter().flatten() {
            if safe.iter().any(|safe| safe.matches(version)) {
                continue;
            }
            open.insert(advisory.id.as_str());
            if !accepted.contains(advisory.id.as_str()) {
                let Advisory { id, package, .. } = advisory;
                findings.push(format!("{package} {version}: https://rustsec.org/advisories/{id}"));
            }
        }
    }
    let stale = accepted.iter().filter(|id| !open.contains(**id));
    findings
        .extend(stale.map(|id| format!("{id} concerns nothing here: take it out of {ACCEPTED}")));
    Ok(AdvisoryReport { date: snapshot.date, packages: locked.len(), findings })
}

/// Versions by name of the packages that come from a registry.
fn packages(lock: &str) -> Result<BTreeMap<&str, Vec<Version>>, RepositoryError> {
    let mut packages: BTreeMap<&str, Vec<Version>> = BTreeMap::new();
    for entry in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let mut lines = entry.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
        };
        if let (Some(name), Some(version), Some(_)) =
            (field("name"), field("version"), field("source"))
        {
            let version = Version::parse(version).map_err(|error| wrong(LOCK, &error))?;
            packages.entry(name).or_default().push(version);
        }
    }
    match packages.is_empty() {
        true => Err(RepositoryError::Missing {
            what: format!("package in {LOCK}"),
            remedy: "run `cargo generate-lockfile`".into(),
        }),
        false => Ok(packages),
    }
}

/// Identities in the list of what is accepted, one per line: `{ id = "RUSTSEC-...", reason = "..."
/// }`.
fn accepted_ids(text: &str) -> BTreeSet<&str> {
    let id = |line: &'_ str| -> Option<(usize, usize)> {
        let start = line.find("id = \"RUSTSEC-")? + "id = \"".len();
        Some((start, start + line[start..].find('"')?))
    };
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.filter_map(|line| id(line).map(|(start, end)| &line[start..end])).collect()
}

fn requirements(advisory: &Advisory) -> Result<Vec<VersionReq>, RepositoryError> {
    let parsed = advisory.safe.iter().map(|safe| VersionReq::parse(safe));
    let all: Result<Vec<VersionReq>, _> = parsed.collect();
    all.map_err(|error| wrong(SNAPSHOT, &error))
}

fn wrong(file: &str, error: &dyn std::error::Error) -> RepositoryError {
    RepositoryError::Output { program: file.into(), detail: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNAPSHOT: &str = r#"{"date": "2026-01-02", "packages": ["a", "b"], "advisories": [
        {"id": "RUSTSEC-1", "package": "a", "safe": [">= 1.2.0", "< 1.1.0"]},
        {"id": "RUSTSEC-2", "package": "b", "safe": []}]}"#;

    fn lock(packages: &[(&str, &str)]) -> String {
        let entry = |(name, version): &(&str, &str)| {
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"registry\"\n"
            )
        };
        packages.iter().map(entry).collect()
    }

    fn findings(packages: &[(&str, &str)], accepted: &str) -> Vec<String> {
        check(&lock(packages), SNAPSHOT, accepted).unwrap().findings
    }

    #[test]
    fn affected_versions_are_found_and_safe_ones_are_not() {
        assert_eq!(findings(&[("a", "1.2.0")], ""), [""; 0]);
        assert_eq!(findings(&[("a", "1.0.9")], ""), [""; 0]);
        let found = findings(&[("a", "1.1.5"), ("a", "1.3.0")], "");
        assert_eq!(found, ["a 1.1.5: https://rustsec.org/advisories/RUSTSEC-1"]);
    }

    #[test]
    fn an_accepted_advisory_is_no_finding_until_it_concerns_nothing() {
        let accepted = r#"    { id = "RUSTSEC-2", reason = "unused" },"#;
        assert_eq!(findings(&[("b", "1.0.0")], accepted), [""; 0]);
        assert_eq!(findings(&[("a", "1.2.0")], accepted).len(), 1);
    }

    #[test]
    fn a_package_that_the_snapshot_does_not_know_is_a_finding() {
        assert_eq!(findings(&[("c", "1.0.0")], "").len(), 1);
    }

    #[test]
    fn an_empty_lock_file_is_an_error() {
        assert!(check("", SNAPSHOT, "").is_err());
    }

    #[test]
    fn the_packages_of_this_checkout_have_no_open_advisories() {
        let report = run(&Repository::here().unwrap()).unwrap();
        assert_eq!(report.findings, [""; 0]);
        assert!(report.packages > 100);
    }
}
