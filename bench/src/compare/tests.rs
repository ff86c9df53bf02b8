//! Comparisons of fixed reports.

use perigee_flags::{ProcessEnvironment, ProgramStart};

use super::*;
use crate::report::samples;

const FILES: [&str; 2] = ["a.json", "b.json"];

/// The sample report with every rate multiplied.
fn scaled(factor: f64) -> Report {
    let mut report = samples::nic();
    for row in &mut report.rows {
        row.rate.average *= factor;
        row.rate.samples.iter_mut().for_each(|rate| *rate *= factor);
    }
    report
}

#[test]
fn a_ratio_within_the_spread_is_an_overlap_and_one_outside_is_not() {
    let before = samples::nic();
    let near = Comparison::of(&before, &scaled(1.1), FILES).unwrap();
    assert!(near.rows.iter().all(|row| row.overlap && (row.ratio.unwrap() - 1.1).abs() < 1e-9));
    let far = Comparison::of(&before, &scaled(2.0), FILES).unwrap();
    assert!(far.rows.iter().all(|row| !row.overlap));
    assert!(text::text(&far).contains("faster"));
    assert!(text::text(&near).contains("overlap"));
}

#[test]
fn runs_too_short_for_a_spread_are_never_called_different() {
    let (mut one, mut two) = (samples::nic(), scaled(9.0));
    for row in one.rows.iter_mut().chain(&mut two.rows) {
        row.rate.samples.truncate(1);
    }
    let comparison = Comparison::of(&one, &two, FILES).unwrap();
    assert!(comparison.rows.iter().all(|row| row.overlap && !row.has_spread));
    assert!(text::text(&comparison).contains("too short"));
    let csv = csv::csv(&comparison);
    assert!(csv.starts_with("operation,") && csv.contains(",overlap,has_spread\n"));
    assert!(csv.lines().skip(1).all(|line| line.ends_with(",true,false")), "{csv}");
}

#[test]
fn there_is_no_ratio_to_a_run_that_moved_nothing() {
    let comparison = Comparison::of(&scaled(0.0), &samples::nic(), FILES).unwrap();
    assert!(comparison.rows.iter().all(|row| row.ratio.is_none()));
    let text = text::text(&comparison);
    assert!(!text.contains("inf") && text.contains("  -  "), "{text}");
    let json: serde_json::Value = comparison.json().parse().unwrap();
    assert!(json["rows"][0]["ratio"].is_null());
    let csv = csv::csv(&comparison);
    assert!(!csv.contains("inf"), "{csv}");
}

#[test]
fn reports_of_two_tools_are_refused() {
    let error = Comparison::of(&samples::nic(), &samples::master(), FILES).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("b.json") && text.contains("`bench master`"), "{text}");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn reports_without_a_common_row_are_refused() {
    let mut other = samples::nic();
    other.rows.iter_mut().for_each(|row| row.depth = 99);
    let text = Comparison::of(&samples::nic(), &other, FILES).unwrap_err().to_string();
    assert!(text.contains("same settings"), "{text}");
}

#[test]
fn what_differs_between_the_runs_is_said() {
    let mut other = samples::nic();
    other.machine.governor = "powersave".to_owned();
    other.complete = false;
    other.error = Some("Call: no answer".to_owned());
    other.loopback = true;
    other.settings.insert("transport".to_owned(), "tcp".to_owned());
    other.settings.insert("device".to_owned(), "mlx5_0".to_owned());
    other.rows.pop();
    let mut first = samples::nic();
    first.settings.insert("peer".to_owned(), "node7".to_owned());
    let comparison = Comparison::of(&first, &other, FILES).unwrap();
    let text = text::text(&comparison);
    for part in [
        "governor differs: performance / powersave",
        "b.json: the run ended early (Call: no answer)",
        "Not of one machine in one state",
        "Not of one kind: a.json is of two machines, b.json of loopback",
        "--transport differs: rdma / tcp",
        "--device differs: - / mlx5_0",
        "--peer differs: node7 / -",
        "1 rows are in one file only",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let (above, _) = text.split_once("\n\n").unwrap();
    assert!(above.contains("the run ended early"), "{text}");
}

#[test]
fn programs_get_the_warnings_beside_the_rows() {
    let mut other = samples::nic();
    other.complete = false;
    let texts = [samples::nic().json(), other.json()];
    for (format, count) in [("--format=text", 0), ("--format=csv", 1), ("--format=json", 1)] {
        let printed = outcome_as(format, [&texts[0], &texts[1]]).unwrap();
        assert_eq!(printed.warnings.len(), count, "{format}");
    }
}

#[test]
fn the_table_fits_80_columns_and_csv_lines_have_all_fields() {
    let comparison = Comparison::of(&samples::nic(), &scaled(1.1), FILES).unwrap();
    for line in text::text(&comparison).lines() {
        assert!(line.len() <= 80, "{line}");
    }
    let csv = csv::csv(&comparison);
    let counts: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    let json: serde_json::Value = comparison.json().parse().unwrap();
    assert_eq!(json["rows"][0]["overlap"], true);
}

fn outcome(texts: [&str; 2]) -> Result<String, BenchError> {
    Ok(outcome_as("--format=text", texts)?.text)
}

fn outcome_as(format: &str, texts: [&str; 2]) -> Result<Printed, BenchError> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let words = [format.to_owned(), file("a.json", texts[0]), file("b.json", texts[1])];
    printed(&words)
}

fn printed(words: &[String]) -> Result<Printed, BenchError> {
    match TOOL.program.load(words, &ProcessEnvironment::of(&[]))? {
        ProgramStart::Run(settings) => result(&settings),
        ProgramStart::Print(text) => panic!("{text}"),
    }
}

#[test]
fn the_format_may_stand_anywhere_and_in_either_spelling() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    std::fs::write(&path, samples::nic().json()).unwrap();
    let file = path.to_str().unwrap();
    for words in [
        ["--format", "json", file, file].as_slice(),
        &[file, "--format", "json", file],
        &[file, file, "-format=json"],
    ] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let printed = self::printed(&words).unwrap();
        let value: serde_json::Value = printed.text.parse().unwrap();
        assert_eq!(value["files"][0], file, "{words:?}");
    }
}

#[test]
fn files_that_are_no_reports_are_refused_by_name() {
    let good = samples::nic().json();
    assert!(outcome([&good, &good]).unwrap().contains("overlap"));
    let old = good.replace(FORMAT, "perigee-bench-0");
    for (text, part) in [
        ("", "Not JSON"),
        ("{}", "Not a report"),
        ("[1]", "Not a report"),
        (old.as_str(), "perigee-bench-0"),
        (r#"{"format": "perigee-bench-2"}"#, "damaged"),
    ] {
        let error = outcome([&good, text]).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("b.json") && message.contains(part), "{message}");
        assert_eq!(error.exit_code(), 2);
    }
    let missing = printed(&["a".to_owned(), "b".to_owned()]);
    assert_eq!(missing.unwrap_err().exit_code(), 2);
    let one = printed(&["a".to_owned()]).unwrap_err().to_string();
    assert!(one.contains("BEFORE.json AFTER.json"), "{one}");
}
