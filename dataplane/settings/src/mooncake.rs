//! Every environment variable that Mooncake 0.3.13 reads at run time, and what Perigee does with
//! it; `words` has what Mooncake takes beside them. Start-up lines, `perigee doctor --mooncake-env`
//! and the page of the book read these tables.
//!
//! Invariant: a row is honoured if and only if code reads its variable (`tests/mooncake.rs` looks).

mod accelerators;
mod clients;
mod engine;
mod groups;
mod rdma;
mod tiers;
pub(crate) mod words;

/// What a variable does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MooncakeEffect {
    /// It sets this.
    Honoured(&'static str),
    /// It has no effect, and nothing is lost without: why.
    NotNeeded(&'static str),
    /// It has no effect: what is missing.
    NotBuilt(&'static str),
}

use MooncakeEffect::{Honoured, NotBuilt, NotNeeded};

impl MooncakeEffect {
    /// The kind in words, for tables.
    pub fn word(self) -> &'static str {
        match self {
            Honoured(_) => "honoured",
            NotNeeded(_) => "not needed",
            NotBuilt(_) => "not built",
        }
    }

    /// What is said of `name` where it has no effect.
    pub fn line(self, name: &str) -> Option<String> {
        match self {
            Honoured(_) => None,
            NotNeeded(why) => Some(format!("{name} has no effect: {why}")),
            NotBuilt(what) => Some(format!("{name} has no effect; not built: {what}")),
        }
    }

    /// What it sets, or why it has no effect.
    pub fn reason(self) -> &'static str {
        match self {
            Honoured(text) | NotNeeded(text) | NotBuilt(text) => text,
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MooncakeVariable {
    /// Name of the environment variable.
    pub name: &'static str,
    /// Title of its group.
    pub group: &'static str,
    /// What it does here.
    pub effect: MooncakeEffect,
}

/// Variables with one effect.
type Entry = (&'static [&'static str], MooncakeEffect);

/// Variables of one part of Mooncake.
struct Group {
    title: &'static str,
    entries: &'static [Entry],
}

const GROUPS: [&Group; 14] = [
    &clients::CONFIGURATION,
    &clients::STORE,
    &engine::GENERAL,
    &engine::LOGS,
    &engine::METADATA,
    &engine::TCP,
    &rdma::CONNECTIONS,
    &rdma::TUNING,
    &rdma::DEVICES,
    &tiers::SSD,
    &tiers::FILES,
    &tiers::NVME,
    &accelerators::LINKS,
    &groups::OTHERS,
];

/// All rows, by group.
pub fn mooncake_variables() -> impl Iterator<Item = MooncakeVariable> {
    GROUPS.iter().flat_map(|group| {
        group.entries.iter().flat_map(|(names, effect)| {
            let row = |name: &&'static str| MooncakeVariable {
                name,
                group: group.title,
                effect: *effect,
            };
            names.iter().map(row)
        })
    })
}
