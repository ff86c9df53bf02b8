//! The house rules that a machine can check, over every file of the repository.
//! Invariant: a finding names file and line, so that an editor can jump there.

mod arrows;
mod circles;
mod document;
mod floors;
mod function;
mod mask;
mod rust_file;
mod text_file;
mod type_names;
mod unsafe_code;
mod violation;
mod words;

use crate::repository::{Repository, RepositoryError};
use type_names::TypeNames;
use violation::Violation;

/// Outcome of a whole run.
pub(crate) struct TidyReport {
    pub(crate) files: usize,
    pub(crate) findings: Vec<Violation>,
}

/// Checks everything.
pub(crate) fn check(repository: &Repository) -> Result<TidyReport, RepositoryError> {
    let files = repository.files()?;
    let mut findings = Vec::new();
    let mut sources = Vec::new();
    let mut type_names = TypeNames::default();
    for file in &files {
        let Some(text) = repository.text(file)? else {
            continue;
        };
        check_file(repository, file, &text, &mut findings);
        if is_source(file) {
            type_names.add(file, &text);
            sources.push((file.clone(), text));
        }
    }
    findings.extend(type_names.check());
    findings.extend(circles::check(&sources));
    let metadata = repository
        .run("cargo", &["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
    let drawing = repository.text(arrows::DRAWING)?.unwrap_or_default();
    findings.extend(arrows::check(&metadata, &drawing)?);
    findings.sort();
    Ok(TidyReport { files: files.len(), findings })
}

fn check_file(repository: &Repository, file: &str, text: &str, findings: &mut Vec<Violation>) {
    findings.extend(text_file::check(file, text));
    findings.extend(words::check(file, text));
    if is_source(file) {
        findings.extend(rust_file::check(file, text));
        findings.extend(unsafe_code::check(file, text));
    }
    if file.ends_with(".md") {
        findings.extend(document::check(file, text, |target| repository.path(target).exists()));
    }
    let own_workspace =
        ["tests/fuzz/", "ebpf/probes/"].iter().any(|folder| file.starts_with(folder));
    if file.ends_with("Cargo.toml") && file != "Cargo.toml" && !own_workspace {
        findings.extend(arrows::check_manifest(file, text));
    }
}

/// Rust by hand: code that flatc writes follows flatc's style.
fn is_source(file: &str) -> bool {
    file.ends_with(".rs") && !file.contains("/generated/")
}

/// Circles of files inside a crate, one line each.
pub(crate) fn circles(repository: &Repository) -> Result<Vec<String>, RepositoryError> {
    let mut sources = Vec::new();
    for file in repository.files()?.into_iter().filter(|file| is_source(file)) {
        if let Some(text) = repository.text(&file)? {
            sources.push((file, text));
        }
    }
    let circles = circles::find(&sources);
    Ok(circles.iter().map(|circle| circle.join(" ")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_code_is_left_to_its_generator() {
        let repository = Repository::at(std::path::Path::new("/nonexistent"));
        let mut findings = Vec::new();
        let text = "pub mod master;\n";
        check_file(&repository, "schemas/src/generated/mod.rs", text, &mut findings);
        assert!(findings.is_empty(), "{findings:?}");
        check_file(&repository, "schemas/src/mod.rs", text, &mut findings);
        assert!(!findings.is_empty());
    }

    #[test]
    fn a_finding_prints_as_file_line_message() {
        let finding = Violation::new("a/b.rs", 0, "Too long");
        assert_eq!(finding.to_string(), "a/b.rs:1: Too long");
    }
}
