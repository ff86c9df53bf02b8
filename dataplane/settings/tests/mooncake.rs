//! The table of Mooncake's variables against the code: what is read is honoured, and what is
//! honoured is read.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_settings::{
    MooncakeEffect, MooncakeVariable, mooncake_variables, mooncake_words, own_variables,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose code is delivered.
const DELIVERED: [&str; 5] = ["dataplane", "control", "ebpf/agent", "tools/cli", "schemas"];
/// Folders and files of tests.
const TESTS: [&str; 6] = ["tests", "tests.rs", "testing", "testing.rs", "examples", "target"];
/// The tables themselves.
const TABLES: [&str; 2] = ["dataplane/settings/src/mooncake", "dataplane/settings/src/own.rs"];
/// First words of variables that the build sets or reads, or that flags have of their own.
const OF_BUILD_OR_FLAGS: [&str; 4] =
    ["PERIGEE_COMMIT", "PERIGEE_WHEEL_", "PERIGEE_WITHOUT_", "PERIGEE_MASTER_"];

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
            let is_table = TABLES.iter().any(|table| path == root.join(table));
            if TESTS.contains(&name.as_str()) || is_table {
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
fn every_variable_that_code_reads_has_a_row_and_every_own_row_is_read() {
    let rows = rows();
    let own: BTreeSet<_> = own_variables().collect();
    let is_variable = |name: &&String| {
        let of_family = ["MC_", "MOONCAKE_", "PERIGEE_"].iter().any(|it| name.starts_with(it));
        let of_others = OF_BUILD_OR_FLAGS.iter().any(|it| name.starts_with(it));
        of_family && !of_others && !name.ends_with('_')
    };
    let quoted = quoted();
    let unlisted: Vec<_> = quoted
        .iter()
        .filter(is_variable)
        .filter(|name| !rows.contains_key(name.as_str()) && !own.contains(name.as_str()))
        .collect();
    assert_eq!(unlisted, [] as [&String; 0]);
    let unread: Vec<_> = own.iter().filter(|name| !quoted.contains(**name)).collect();
    assert_eq!(unread, [] as [&&str; 0]);
}

#[test]
fn each_word_has_one_row_for_each_place_and_a_reason() {
    let mut places = BTreeSet::new();
    for word in mooncake_words() {
        let reason = word.effect.reason();
        assert!(!reason.is_empty() && reason.len() <= 90, "{word:?}");
        assert!(!reason.ends_with('.') && !reason.contains('|'), "{word:?}");
        assert!(places.insert((word.taken_by, word.name)), "{word:?} is there twice");
    }
    assert!(places.len() > 150, "{}", places.len());
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
