//! What each of Mooncake's settings beside variables does here.
//! Invariant: flags and parameters come from the tables that programs and routes read, so that this
//! list cannot say anything else.

use perigee_admin::parameters::ROUTES;
use perigee_bench::TRANSFER_ENGINE_BENCH;
use perigee_flags::{ALLOW_UNBUILT, Flag, FlagSupport, LOG_FLAGS, Program};
use perigee_metadata::config::METADATA_SERVER;
use perigee_node::config::table::NODE;
use perigee_service::config::table::MASTER;
use perigee_settings::{GFLAGS, MooncakeEffect, MooncakeWord, WordKind, mooncake_words};
use serde_json::{Value, json};

/// Mooncake's programs whose flags are in tables.
const PROGRAMS: [(&str, &Program); 4] = [
    ("mooncake_master", &MASTER),
    ("mooncake_client", &NODE),
    ("mooncake_http_metadata_server", &METADATA_SERVER),
    ("transfer_engine_bench", &TRANSFER_ENGINE_BENCH),
];

/// Kinds in the order of the list, and what each is called.
const KINDS: [(WordKind, &str); 4] = [
    (WordKind::Flag, "flag"),
    (WordKind::Key, "key"),
    (WordKind::Keyword, "keyword"),
    (WordKind::Parameter, "parameter"),
];

/// One row.
pub(super) struct SettingRow {
    kind: &'static str,
    /// Program, file, class or route.
    taken_by: String,
    name: &'static str,
    effect: &'static str,
    reason: String,
}

impl SettingRow {
    fn of_flag(taken_by: &str, flag: &Flag) -> Self {
        let honoured = MooncakeEffect::Honoured(flag.help).word();
        let (effect, reason) = match flag.state {
            FlagSupport::Built => (honoured, flag.help.to_owned()),
            FlagSupport::Deprecated(note) => (honoured, format!("{}; {note}", flag.help)),
            FlagSupport::Ignored(why) => (MooncakeEffect::NotNeeded(why).word(), why.to_owned()),
            FlagSupport::NotBuilt(what) => (MooncakeEffect::NotBuilt(what).word(), what.to_owned()),
            FlagSupport::Guarantee(what) => {
                let reason = format!("{what}; refused without {}", ALLOW_UNBUILT.name);
                (MooncakeEffect::NotBuilt(what).word(), reason)
            }
        };
        Self { kind: "flag", taken_by: taken_by.to_owned(), name: flag.name, effect, reason }
    }

    fn of_word(kind: &'static str, word: MooncakeWord) -> Self {
        let MooncakeWord { taken_by, name, effect, .. } = word;
        let reason = effect.reason().to_owned();
        Self { kind, taken_by: taken_by.to_owned(), name, effect: effect.word(), reason }
    }

    /// Cells of a line for people.
    pub(super) fn cells(&self) -> [String; 3] {
        let name = match self.kind {
            "flag" => format!("{} --{}", self.taken_by, self.name),
            _ => format!("{}: {}", self.taken_by, self.name),
        };
        [name, self.effect.to_owned(), self.reason.clone()]
    }

    /// The row for programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "kind": self.kind,
            "taken_by": self.taken_by,
            "name": self.name,
            "effect": self.effect,
            "reason": self.reason,
        })
    }
}

/// All rows: flags, keys, keywords, parameters.
pub(super) fn settings() -> Vec<SettingRow> {
    let mut rows = flags();
    for (kind, called) in KINDS {
        let words = mooncake_words().filter(|word| word.kind == kind);
        if kind == WordKind::Parameter {
            rows.extend(parameters());
        }
        rows.extend(words.map(|word| SettingRow::of_word(called, word)));
    }
    rows
}

fn flags() -> Vec<SettingRow> {
    let mut rows = Vec::new();
    for (called, program) in PROGRAMS {
        let is_log = |flag: &Flag| LOG_FLAGS.iter().any(|log| log.name == flag.name);
        let of_mooncake = program.flags().filter(|flag| !flag.is_own && !is_log(flag));
        rows.extend(of_mooncake.map(|flag| SettingRow::of_flag(called, flag)));
    }
    rows.extend(LOG_FLAGS.iter().map(|flag| SettingRow::of_flag(GFLAGS, flag)));
    rows
}

fn parameters() -> impl Iterator<Item = SettingRow> {
    ROUTES.iter().flat_map(|route| {
        route.of_mooncake.iter().map(|(name, about)| SettingRow {
            kind: "parameter",
            taken_by: format!("mooncake_master: {}", route.path),
            name,
            effect: MooncakeEffect::Honoured(about).word(),
            reason: (*about).to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_setting_has_one_row_for_each_place() {
        let mut places = BTreeSet::new();
        for row in settings() {
            assert!(!row.reason.is_empty() && !row.reason.contains('|'), "{}", row.name);
            assert!(places.insert((row.taken_by.clone(), row.name)), "{} twice", row.name);
        }
        let kinds: Vec<_> = settings().iter().map(|row| row.kind).collect();
        assert!(kinds.is_sorted() && kinds.len() > 300, "{}", kinds.len());
    }
}
