//! Python packages that would be loaded in Perigee's place. Invariant: no code of a package runs.

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules that Mooncake has as compiled ones: Python prefers those to ours beside them.
const COMPILED: [&str; 2] = ["store", "engine"];
/// Where an installation keeps packages, below `lib/python3…`.
const PACKAGE_FOLDERS: [&str; 2] = ["site-packages", "dist-packages"];

/// Folders `mooncake` of this program's own wheel, of the active virtual environment, and of the
/// first Python of the path.
pub(super) fn folders(
    program: Option<PathBuf>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<PathBuf> {
    let mut folders = BTreeSet::new();
    // In a wheel the program is mooncake/bin/perigee.
    let beside = program.and_then(|it| Some(it.parent()?.parent()?.to_owned()));
    folders.extend(beside.filter(|folder| folder.ends_with("mooncake")));
    let python = variable("PATH").and_then(|path| {
        let mut places = std::env::split_paths(&path);
        places.find(|place| place.join("python3").exists())
    });
    let prefix = python.and_then(|place| Some(place.parent()?.to_owned()));
    for prefix in variable("VIRTUAL_ENV").map(PathBuf::from).into_iter().chain(prefix) {
        folders.extend(below(&prefix));
    }
    folders.into_iter().filter(|folder| folder.is_dir()).collect()
}

/// `PREFIX/lib/python3*/*-packages/mooncake`.
fn below(prefix: &Path) -> Vec<PathBuf> {
    let versions = entries(&prefix.join("lib")).filter(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("python3")
    });
    let folders =
        versions.flat_map(|path| PACKAGE_FOLDERS.map(|name| path.join(name).join("mooncake")));
    folders.collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.flatten().map(|entry| entry.path())
}

/// `import mooncake.store` refuses then; without Perigee's guard it would silently load the other
/// product.
pub(super) fn compiled_modules(host: &HostFacts) -> CheckOutcome {
    if host.packages.is_empty() {
        return CheckOutcome::Skipped("no Python package `mooncake` here");
    }
    CheckOutcome::of(host.packages.iter().filter_map(|folder| finding(folder)))
}

fn finding(folder: &Path) -> Option<Finding> {
    let names = compiled(folder);
    let first = names.first()?;
    let owner = owner(folder, first).unwrap_or_else(|| "mooncake-transfer-engine".to_owned());
    Some(Finding::failure(
        folder.display().to_string(),
        format!(
            "{} of {owner} would be loaded instead of Perigee's modules; import mooncake.store refuses",
            names.join(" and ")
        ),
        format!(
            "pip uninstall {owner} && pip install --force-reinstall --no-deps perigee-mooncake"
        ),
    ))
}

/// Files of compiled modules that are not ours.
fn compiled(folder: &Path) -> Vec<String> {
    let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
    let is_foreign = |name: &String| {
        let stem = name.split('.').next().unwrap_or_default();
        name.ends_with(".so") && COMPILED.contains(&stem)
    };
    let mut names: Vec<String> = entries(folder).filter_map(name).filter(is_foreign).collect();
    names.sort();
    names
}

/// Name of the distribution whose list of files has this one.
fn owner(folder: &Path, file: &str) -> Option<String> {
    let line = format!("mooncake/{file},");
    let lists = entries(folder.parent()?)
        .filter(|path| path.extension().is_some_and(|it| it == "dist-info"));
    let mut owners = lists.filter(|path| {
        let record = fs::read_to_string(path.join("RECORD")).unwrap_or_default();
        record.lines().any(|it| it.starts_with(&line))
    });
    let found = owners.next()?;
    let name = found.file_stem()?.to_str()?.split('-').next()?;
    Some(name.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_looked_for_beside_the_program_and_below_each_python() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let expected = [
            "env/lib/python3.12/site-packages/mooncake",
            "usr/lib/python3/dist-packages/mooncake",
            "wheel/mooncake",
        ];
        for folder in expected.iter().chain(&["usr/bin", "usr/lib/perl5/site-packages/mooncake"]) {
            fs::create_dir_all(path(folder)).unwrap();
        }
        fs::write(path("usr/bin/python3"), "").unwrap();
        let program = Some(path("wheel/mooncake/bin/perigee"));
        let found = folders(program, |name| match name {
            "PATH" => Some(path("usr/bin").into_os_string()),
            "VIRTUAL_ENV" => Some(path("env").into_os_string()),
            _ => None,
        });
        assert_eq!(found, expected.map(path));
        assert!(folders(Some(path("usr/bin/perigee")), |_| None).is_empty());
    }

    #[test]
    fn the_finding_names_files_and_the_distribution_to_remove() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("mooncake");
        let list = root.path().join("mooncake_transfer_engine_non_cuda-0.3.13.dist-info");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(&list).unwrap();
        for ours in ["store.py", "_perigee.abi3.so", "engine.pyi"] {
            fs::write(folder.join(ours), "").unwrap();
        }
        assert_eq!(finding(&folder), None);
        fs::write(folder.join("store.so"), "").unwrap();
        fs::write(folder.join("engine.cpython-312-x86_64-linux-gnu.so"), "").unwrap();
        fs::write(
            list.join("RECORD"),
            "mooncake/engine.cpython-312-x86_64-linux-gnu.so,sha256=x,1\n",
        )
        .unwrap();
        let found = finding(&folder).unwrap();
        assert!(
            found.message.contains("store.so of mooncake-transfer-engine-non-cuda"),
            "{found:?}"
        );
        assert!(
            found.fix.starts_with("pip uninstall mooncake-transfer-engine-non-cuda &&"),
            "{found:?}"
        );
    }
}
