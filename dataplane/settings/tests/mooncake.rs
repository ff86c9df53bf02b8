//! The table of Mooncake's variables against the code: what is read is honoured, and what is
//! honoured is read.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_settings::{MooncakeEffect, MooncakeVariable, mooncake_variables};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose code is delivered.
const DELIVERED: [&str; 5] = ["dataplane", "control", "ebpf/agent", "tools/cli", "schemas"];
/// Folders and files of tests.
const TESTS: [&str; 6] = ["tests", "tests.rs", "testing", "testing.rs", "examples", "target"];
/// The table itself.
const TABLE: &str = "dataplane/settings/src/mooncake";
/// Variables of Mooncake's families that Perigee reads and Mooncake does not.
const OUR_OWN: [&str; 2] = ["MC_METADATA_HTTP_TOKEN", "MOONCAKE_OFFLOAD_FILE_STORAGE_PATHS"];

fn rows() -> BTreeMap<&'static str, MooncakeVariable> {
    mooncake_variables().map(|row| (row.name, row)).collect()
}

/// Words in quotes in the delivered code.
fn quoted() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut words = BTreeSet::new();
    let mut folders: Vec<PathBuf> = DELIVERED.iter().map(|name| root.join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if TESTS.contains(&name.as_str()) || path == root.join(TABLE) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") || name.ends_with(".py") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                words.extend(code.split('"').filter(|word| is_name(word)).map(str::to_owned));
            }
        }
    }
    words
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[test]
fn a_variable_is_honoured_if_and_only_if_code_reads_it() {
    let quoted = quoted();
    assert!(quoted.contains("PERIGEE_POLL_US"), "the code was not found");
    for row in mooncake_variables() {
        let is_honoured = matches!(row.effect, MooncakeEffect::Honoured(_));
        let is_read = quoted.contains(row.name);
        assert_eq!(is_honoured, is_read, "{}: honoured {is_honoured}, read {is_read}", row.name);
    }
}

#[test]
fn every_variable_of_mooncakes_families_that_code_reads_has_a_row() {
    let rows = rows();
    let of_family = |name: &&String| name.starts_with("MC_") || name.starts_with("MOONCAKE_");
    let quoted = quoted();
    let unlisted: Vec<_> = quoted
        .iter()
        .filter(of_family)
        .filter(|name| !rows.contains_key(name.as_str()) && !OUR_OWN.contains(&name.as_str()))
        .collect();
    assert_eq!(unlisted, [] as [&String; 0]);
}

#[test]
fn the_table_names_each_variable_once_and_gives_a_reason() {
    let count = mooncake_variables().count();
    // 317 are read outside of builds and tests, without HOME, which only finds a kubeconfig.
    assert_eq!((count, rows().len()), (317, 317));
    for row in mooncake_variables() {
        let reason = row.effect.reason();
        assert!(is_name(row.name) && !reason.is_empty() && reason.len() <= 90, "{row:?}");
        assert!(!reason.ends_with('.') && !reason.contains('|'), "{row:?}");
    }
}
