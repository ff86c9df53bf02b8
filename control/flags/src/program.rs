//! A program's tables. Invariant: tables hold no two flags
//! that answer to one name (each program tests this with [`Program::check`]).

use crate::flag::Flag;
use crate::origin::Origin;
use crate::suggestion::nearest;
use crate::value::parse_value;
use std::collections::BTreeSet;

/// Name of the flag that names the configuration file, in programs that have one.
pub(crate) const CONFIG_PATH: &str = "config_path";

/// One program as its settings see it.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Program name in help and version texts.
    pub name: &'static str,
    /// Version text.
    pub version: &'static str,
    /// One sentence about what it does.
    pub summary: &'static str,
    /// Prefix of its own environment variables, such as `PERIGEE_MASTER_`.
    pub variable_prefix: &'static str,
    /// Names of the words that a start has beside its flags, in order: `BEFORE.json`. It has all of
    /// them, or is refused.
    pub words: &'static [&'static str],
    /// Flags in titled groups.
    pub tables: &'static [(&'static str, &'static [Flag])],
}

impl Program {
    /// All flags in table order.
    pub fn flags(&self) -> impl Iterator<Item = &'static Flag> + use<> {
        self.tables.iter().flat_map(|(_, flags)| flags.iter())
    }

    /// The flag that answers to a name written with underscores.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'static Flag> {
        self.flags().find(|flag| flag.answers_to(name))
    }

    /// Closest known flag name to one that is not known.
    #[must_use]
    pub fn suggest(&self, written: &str) -> Option<&'static str> {
        let name = written.replace('-', "_").to_ascii_lowercase();
        nearest(&name, self.flags().map(|flag| flag.name))
            .or_else(|| nearest(name.strip_prefix("no")?, self.flags().map(|flag| flag.name)))
    }

    /// Describes every contradiction inside the tables: names used twice, defaults out of bounds.
    /// Empty for a sound program; each program's tests call this.
    #[must_use]
    pub fn check(&self) -> Vec<String> {
        let mut names = BTreeSet::new();
        let mut faults = Vec::new();
        for flag in self.flags() {
            for name in std::iter::once(&flag.name).chain(flag.aliases) {
                if !names.insert(*name) {
                    faults.push(format!("name {name} is used twice"));
                }
            }
            if let Err(error) = parse_value(flag, flag.default, &Origin::Default) {
                faults.push(error.to_string());
            }
        }
        faults
    }
}
