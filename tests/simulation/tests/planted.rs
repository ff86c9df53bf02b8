//! The planted faults still fit the code. Whether each is found is for `make planted`, which builds the code with them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Fewer are a folder that was not found.
const FAULTS_MIN: usize = 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn faults() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("tests/planted")).expect("the folder is there");
    let paths = folder.map(|entry| entry.expect("it can be listed").path());
    let is_patch = |path: &PathBuf| path.extension().is_some_and(|it| it == "patch");
    let mut faults: Vec<_> = paths.filter(is_patch).collect();
    faults.sort();
    assert!(faults.len() >= FAULTS_MIN, "{faults:?}");
    faults
}

#[test]
fn every_planted_fault_applies() {
    for fault in faults() {
        let mut command = Command::new("git");
        let fault = fault.canonicalize().unwrap();
        let check = command.args(["apply", "--check"]).arg(&fault);
        let output = check.current_dir(root()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{} does not fit the code any more; change it with the code: {error}",
            fault.display()
        );
    }
}

#[test]
fn every_planted_fault_names_its_promise_and_what_finds_it() {
    for fault in faults() {
        let text = std::fs::read_to_string(&fault).unwrap();
        let head: Vec<&str> = text.lines().take(2).collect();
        let promise = head[0].strip_prefix("Promise: ").unwrap_or_default();
        let finder = head[1].strip_prefix("Found by: ").unwrap_or_default();
        assert!(!promise.is_empty(), "{}", fault.display());
        let is_known = finder.starts_with("simulation ") || finder.starts_with("test ");
        assert!(is_known, "{}: {finder}", fault.display());
    }
}
