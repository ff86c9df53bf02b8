//! What Mooncake takes beside variables and the flags of its C++ programs: options of its Python
//! programs, keys of configurations, keywords of Python calls, and words of HTTP requests.
//!
//! Invariant: each word has one row for each place that takes it. `setup` reads its own names and
//! its lines about words without effect from here; tests try the others.

mod configuration;
mod engine;
mod programs;
mod requests;
mod reshard;
mod store;
mod structured;
mod tent;
mod vocabulary;

use super::MooncakeEffect;
pub use configuration::SETUP_KEYS;
pub use programs::GFLAGS;
pub use store::{REPLICATE_CONFIG, SETUP_KEYWORDS};
use vocabulary::Vocabulary;
pub use vocabulary::WordKind;

/// One row: a word and what it does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MooncakeWord {
    /// What it is.
    pub kind: WordKind,
    /// Program, file, class or route that takes it.
    pub taken_by: &'static str,
    /// The word.
    pub name: &'static str,
    /// What it does here.
    pub effect: MooncakeEffect,
}

/// All rows.
pub fn mooncake_words() -> impl Iterator<Item = MooncakeWord> {
    let all = [
        programs::VOCABULARIES,
        configuration::VOCABULARIES,
        tent::VOCABULARIES,
        store::VOCABULARIES,
        structured::VOCABULARIES,
        reshard::VOCABULARIES,
        engine::VOCABULARIES,
        requests::VOCABULARIES,
    ];
    all.into_iter().flatten().flat_map(|vocabulary| {
        let Vocabulary { kind, taken_by, entries } = *vocabulary;
        entries.iter().flat_map(move |(names, effect)| {
            let row =
                move |name: &&'static str| MooncakeWord { kind, taken_by, name, effect: *effect };
            names.iter().map(row)
        })
    })
}

/// The line about a word that has no effect at one place.
pub fn word_without_effect(taken_by: &str, name: &str) -> Option<String> {
    let mut words = mooncake_words();
    let word = words.find(|word| word.taken_by == taken_by && word.name == name)?;
    word.effect.line(name)
}
