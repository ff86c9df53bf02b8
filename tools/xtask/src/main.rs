//! Project chores behind `cargo xtask`: code generation, tidiness and packaging checks.
//! Invariant: each chore exits 0 only when everything it checked holds.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command line tool reports on stdout")]

mod advisories;
mod codegen;
mod dashboards;
mod needed;
mod repository;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

use repository::Repository;

const USAGE: &str = "\
usage: cargo xtask CHORE

  tidy               house rules over all files of the repository
  circles            files inside a crate that import each other
  codegen [--check]  regenerate schemas/src/generated and the page of metrics, or only compare
  dashboards [--check]  write Grafana's files from tools/dashboards, or only compare and check
  advisories         packages of Cargo.lock against the snapshot of known vulnerabilities
  needed FILE...     libraries and glibc that programs and Python modules need at start";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tidy"] => run_tidy(),
        ["circles"] => run_circles(),
        ["codegen"] => run_codegen(false),
        ["codegen", "--check"] => run_codegen(true),
        ["dashboards"] => run_dashboards(false),
        ["dashboards", "--check"] => run_dashboards(true),
        ["advisories"] => run_advisories(),
        ["needed", files @ ..] if !files.is_empty() => run_needed(files),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run_tidy() -> Result<bool, String> {
    let repository = Repository::here().map_err(|e| e.to_string())?;
    let report = tidy::check(&repository).map_err(|e| e.to_string())?;
    for finding in &report.findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", report.files, report.findings.len());
    Ok(report.findings.is_empty())
}

fn run_circles() -> Result<bool, String> {
    let repository = Repository::here().map_err(|e| e.to_string())?;
    let circles = tidy::circles(&repository).map_err(|e| e.to_string())?;
    for circle in &circles {
        println!("circles: {circle}");
    }
    println!("circles: {}", circles.len());
    Ok(true)
}

fn run_codegen(check_only: bool) -> Result<bool, String> {
    let repository = Repository::here().map_err(|e| e.to_string())?;
    let changed = codegen::run(&repository, check_only).map_err(|e| e.to_string())?;
    for path in &changed {
        let verb = if check_only { "stale" } else { "wrote" };
        println!("codegen: {verb} {path}");
    }
    if changed.is_empty() {
        println!("codegen: generated code is up to date");
    } else if check_only {
        println!("codegen: run `cargo xtask codegen` and commit the result");
    }
    Ok(changed.is_empty() || !check_only)
}

fn run_dashboards(check_only: bool) -> Result<bool, String> {
    let repository = Repository::here().map_err(|e| e.to_string())?;
    let report = dashboards::run(&repository, check_only).map_err(|e| e.to_string())?;
    for finding in &report.unknown {
        println!("dashboards: {finding}");
    }
    for path in &report.changed {
        let verb = if check_only { "stale" } else { "wrote" };
        println!("dashboards: {verb} {path}");
    }
    let is_sound = report.unknown.is_empty() && (report.changed.is_empty() || !check_only);
    if is_sound {
        println!("dashboards: every query is sound");
    }
    Ok(is_sound)
}

fn run_advisories() -> Result<bool, String> {
    let repository = Repository::here().map_err(|e| e.to_string())?;
    let report = advisories::run(&repository).map_err(|e| e.to_string())?;
    for finding in &report.findings {
        println!("advisories: {finding}");
    }
    let (packages, date) = (report.packages, &report.date);
    println!("advisories: {packages} packages against the snapshot of {date}");
    Ok(report.findings.is_empty())
}

fn run_needed(files: &[&str]) -> Result<bool, String> {
    let mut good = true;
    for file in files {
        let libraries = needed::libraries(Path::new(file)).map_err(|e| e.to_string())?;
        let glibc = needed::glibc(Path::new(file)).map_err(|e| e.to_string())?;
        let not_allowed = needed::not_allowed(&libraries);
        let version = glibc.map_or_else(String::new, |version| format!(", glibc {version}"));
        println!("needed: {file}: {}{version}", libraries.join(" "));
        if !not_allowed.is_empty() {
            println!("needed: {file} must not need {}", not_allowed.join(" "));
            good = false;
        }
        if glibc > Some(needed::GLIBC_MAX) {
            println!("needed: {file} must run with glibc {}", needed::GLIBC_MAX);
            good = false;
        }
    }
    Ok(good)
}
