//! The benchmarks as a program: figures under the keys that scripts read, and a clear end for what it does not know.

#![cfg(test)]

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_perigee-bench"));
    program.args(arguments).output().unwrap()
}

#[test]
fn json_has_figures_with_goals_and_rows() {
    let output = run(&["allocator", "--allocations", "200000", "--format", "json"]);
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = report["figures"].as_array().unwrap();
    assert!(!figures.is_empty());
    for figure in figures {
        assert!(
            figure["value"].is_number() && figure["name"].is_string(),
            "{figure}"
        );
    }
    assert!(!report["rows"].as_array().unwrap().is_empty());
}

#[test]
fn help_tells_the_measurements_and_an_unknown_one_is_refused() {
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    for name in [
        "copy-ratio",
        "tcp-ratio",
        "engine-ratio",
        "integrity-cost",
        "master",
        "allocator",
    ] {
        assert!(help.contains(name), "{name}");
    }
    let refused = run(&["alocator"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8(refused.stderr)
            .unwrap()
            .contains("'allocator'")
    );
}
