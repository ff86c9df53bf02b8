//! `perigee doctor --mooncake-env`: what each of Mooncake's variables does here, and, if all are
//! asked for, each of its other settings. Invariant: values are never shown; some are secrets.

use super::mooncake_settings::{SettingRow, settings};
use crate::columns::aligned;
use perigee_flags::ProcessEnvironment;
use perigee_settings::{MisspeltVariable, MooncakeVariable, misspelt, mooncake_variables};
use serde_json::json;

/// The flag, and the words it takes.
pub(super) const FLAG: &str = "mooncake_env";
pub(super) const NONE: &str = "none";
pub(super) const SET: &str = "set";
pub(super) const ALL: &str = "all";

/// What the doctor says about variables.
pub(super) struct VariableReport {
    rows: Vec<MooncakeVariable>,
    settings: Vec<SettingRow>,
    misspelt: Vec<MisspeltVariable>,
}

impl VariableReport {
    /// The rows that `word` asks for, and what is misspelt in the environment.
    pub(super) fn of(word: &str, environment: &ProcessEnvironment) -> Self {
        let wanted = |row: &MooncakeVariable| word == ALL || environment.get(row.name).is_some();
        let rows = mooncake_variables().filter(wanted).collect();
        let settings = if word == ALL { settings() } else { Vec::new() };
        let misspelt = misspelt(environment.names_with_prefix("").map(str::to_owned));
        Self { rows, settings, misspelt }
    }

    /// A table for people.
    pub(super) fn text(&self) -> String {
        let of_row = |row: &MooncakeVariable| {
            [row.name.to_owned(), row.effect.word().to_owned(), row.effect.reason().to_owned()]
        };
        let of_misspelt = |one: &MisspeltVariable| {
            [one.written.clone(), "misspelt".to_owned(), format!("write {}", one.meant)]
        };
        let misspelt = self.misspelt.iter().map(of_misspelt);
        let settings = self.settings.iter().map(SettingRow::cells);
        let cells: Vec<_> = self.rows.iter().map(of_row).chain(settings).chain(misspelt).collect();
        match cells.is_empty() {
            true => "No variable of Mooncake is set here\n".to_owned(),
            false => aligned(0, &cells),
        }
    }

    /// One document for programs: `variables` with `name`, `group`, `effect` and `reason`,
    /// `settings` with `kind`, `taken_by`, `name`, `effect` and `reason`, and `misspelt` with
    /// `name` and `meant`.
    pub(super) fn json(&self) -> String {
        let of_row = |row: &MooncakeVariable| {
            json!({
                "name": row.name,
                "group": row.group,
                "effect": row.effect.word(),
                "reason": row.effect.reason(),
            })
        };
        let of_misspelt =
            |one: &MisspeltVariable| json!({ "name": one.written, "meant": one.meant });
        let document = json!({
            "variables": self.rows.iter().map(of_row).collect::<Vec<_>>(),
            "settings": self.settings.iter().map(SettingRow::json).collect::<Vec<_>>(),
            "misspelt": self.misspelt.iter().map(of_misspelt).collect::<Vec<_>>(),
        });
        format!("{document:#}\n")
    }
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
            ("MC_MAX_WRR", "512"),
        ]);
        let set = VariableReport::of(SET, &environment);
        assert_eq!(
            set.text(),
            "MC_REDIS_PASSWORD    honoured   user of Redis\n\
             MOONCAKE_AWS_REGION  not built  snapshots of the master\n\
             MC_MAX_WRR           misspelt   write MC_MAX_WR\n"
        );
        assert!(!set.json().contains("hush"));
        let document: serde_json::Value = serde_json::from_str(&set.json()).unwrap();
        assert_eq!(document["misspelt"][0]["meant"], "MC_MAX_WR");
    }

    #[test]
    fn all_is_the_whole_table_in_both_forms() {
        let nothing_set = ProcessEnvironment::default();
        let all = VariableReport::of(ALL, &nothing_set);
        let (variables, others) = (mooncake_variables().count(), settings().len());
        assert_eq!((all.rows.len(), all.text().lines().count()), (variables, variables + others));
        let document: serde_json::Value = serde_json::from_str(&all.json()).unwrap();
        assert_eq!(document["variables"].as_array().unwrap().len(), variables);
        assert_eq!(document["settings"].as_array().unwrap().len(), others);
        assert!(VariableReport::of(SET, &nothing_set).text().contains("No variable"));
    }
}
