//! `perigee doctor --mooncake-env`: what each of Mooncake's variables does here. Invariant: values
//! are never shown; some are secrets.

use crate::columns::aligned;
use perigee_flags::ProcessEnvironment;
use perigee_settings::{MooncakeVariable, mooncake_variables};
use serde_json::json;

/// The flag, and the words it takes.
pub(super) const FLAG: &str = "mooncake_env";
pub(super) const NONE: &str = "none";
pub(super) const SET: &str = "set";
pub(super) const ALL: &str = "all";

/// The rows that `word` asks for.
pub(super) fn rows(word: &str, environment: &ProcessEnvironment) -> Vec<MooncakeVariable> {
    let wanted = |row: &MooncakeVariable| word == ALL || environment.get(row.name).is_some();
    mooncake_variables().filter(wanted).collect()
}

/// A table for people.
pub(super) fn text(rows: &[MooncakeVariable]) -> String {
    if rows.is_empty() {
        return "No variable of Mooncake is set here\n".to_owned();
    }
    let cells = |row: &MooncakeVariable| {
        [row.name.to_owned(), row.effect.word().to_owned(), row.effect.reason().to_owned()]
    };
    aligned(0, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// One document for programs: `variables` with `name`, `group`, `effect` and `reason`.
pub(super) fn json(rows: &[MooncakeVariable]) -> String {
    let row = |row: &MooncakeVariable| {
        json!({
            "name": row.name,
            "group": row.group,
            "effect": row.effect.word(),
            "reason": row.effect.reason(),
        })
    };
    format!("{:#}\n", json!({ "variables": rows.iter().map(row).collect::<Vec<_>>() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_listed_with_its_row_and_without_its_value() {
        let environment = ProcessEnvironment::of(&[
            ("MC_REDIS_PASSWORD", "hush"),
            ("MOONCAKE_AWS_REGION", "north"),
            ("MC_MAX_WR", ""),
        ]);
        let set = rows(SET, &environment);
        let names: Vec<_> = set.iter().map(|row| row.name).collect();
        assert_eq!(names, ["MC_REDIS_PASSWORD", "MOONCAKE_AWS_REGION"]);
        let text = text(&set);
        assert_eq!(
            text,
            "MC_REDIS_PASSWORD    honoured   user of Redis\n\
             MOONCAKE_AWS_REGION  not built  snapshots of the master\n"
        );
        assert!(!json(&set).contains("hush"));
    }

    #[test]
    fn all_is_the_whole_table_in_both_forms() {
        let all = rows(ALL, &ProcessEnvironment::default());
        assert_eq!(all.len(), mooncake_variables().count());
        assert_eq!(text(&all).lines().count(), all.len());
        let document: serde_json::Value = serde_json::from_str(&json(&all)).unwrap();
        assert_eq!(document["variables"].as_array().unwrap().len(), all.len());
        assert!(text(&rows(SET, &ProcessEnvironment::default())).contains("No variable"));
    }
}
