//! The merged settings of one start. Invariant: every flag of the table has exactly one value here.

use crate::error::FlagError;
use crate::flag::{ALLOW_UNBUILT, Flag, FlagSupport};
use crate::origin::Origin;
use crate::value::{Value, shortened};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) flag: &'static Flag,
    pub(crate) value: Value,
    pub(crate) default: Value,
    pub(crate) origin: Origin,
}

/// Typed values of all flags of one program.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(crate) entries: BTreeMap<&'static str, Setting>,
    pub(crate) words: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    fn entry(&self, name: &str) -> &Setting {
        self.entries.get(name).expect("programs only ask for flags of their own table")
    }

    /// Value of a yes/no flag.
    #[must_use]
    pub fn bool(&self, name: &str) -> bool {
        matches!(self.entry(name).value, Value::Bool(true))
    }

    /// Value of an integer, duration (ms) or size (bytes) flag.
    #[must_use]
    pub fn integer<T: TryFrom<i128>>(&self, name: &str) -> T {
        let Value::Integer(value) = self.entry(name).value else {
            unreachable!("flag {name} is not an integer in its table")
        };
        T::try_from(value).ok().expect("the table's bounds keep the value inside the type")
    }

    /// Value of a decimal flag.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        match self.entry(name).value {
            Value::Number(value) => value,
            _ => unreachable!("flag {name} is not a number in its table"),
        }
    }

    /// Value of a text flag.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match &self.entry(name).value {
            Value::Text(value) => value,
            _ => unreachable!("flag {name} is not a text in its table"),
        }
    }

    /// Value of a text flag, `None` when empty.
    #[must_use]
    pub fn optional_text(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// The words beside the flags, one for each name in the program's table.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The error of a value that a program cannot use; `expected` ends "give ...".
    #[must_use]
    pub fn refusal(&self, name: &'static str, expected: String) -> FlagError {
        let entry = self.entry(name);
        let (value, origin) = (shortened(&shown(&entry.value)), entry.origin.clone());
        FlagError::BadValue { name, value, origin, expected }
    }

    /// Where the value of a flag came from.
    #[must_use]
    pub fn origin(&self, name: &str) -> &Origin {
        &self.entry(name).origin
    }

    /// True if the value was set explicitly, even to the default.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        *self.origin(name) != Origin::Default
    }

    /// All values that differ from their defaults, as `name=value` for the start-up log line.
    #[must_use]
    pub fn changed(&self) -> Vec<String> {
        let changed = self.entries.values().filter(|entry| entry.value != entry.default);
        changed.map(|entry| format!("{}={}", entry.flag.name, shown(&entry.value))).collect()
    }

    /// Warnings about this start: features not built yet, old spellings, ignored flags.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Refuses guarantees about data that are asked for and not built, unless that is allowed.
    pub(crate) fn check_guarantees(&self) -> Result<(), FlagError> {
        let allowed = self.entries.get(ALLOW_UNBUILT.name);
        if allowed.is_some_and(|entry| entry.value == Value::Bool(true)) {
            return Ok(());
        }
        let mut changed = self.entries.values().filter(|entry| entry.value != entry.default);
        let refused = changed.find_map(|entry| match entry.flag.state {
            FlagSupport::Guarantee(feature) => Some(FlagError::NotBuilt {
                name: entry.flag.name,
                value: shown(&entry.value),
                feature,
            }),
            _ => None,
        });
        refused.map_or(Ok(()), Err)
    }

    /// Adds the warnings that follow from the states of the changed flags.
    pub(crate) fn warn_about_states(&mut self) {
        let changed = self.entries.values().filter(|entry| entry.value != entry.default);
        let mut not_built: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut single = Vec::new();
        for Setting { flag, .. } in changed {
            match flag.state {
                FlagSupport::Built => {}
                FlagSupport::NotBuilt(feature) | FlagSupport::Guarantee(feature) => {
                    not_built.entry(feature).or_default().push(flag.name);
                }
                FlagSupport::Deprecated(note) => {
                    single.push(format!("Setting `{}` is deprecated: {note}", flag.name));
                }
                FlagSupport::Ignored(why) => {
                    single.push(format!("Setting `{}` has no effect: {why}", flag.name));
                }
            }
        }
        if !not_built.is_empty() {
            let parts: Vec<String> = not_built
                .iter()
                .map(|(feature, names)| format!("{} ({feature})", names.join(", ")))
                .collect();
            self.warnings.push(format!(
                "Accepted without effect, the feature is not built yet: {}",
                parts.join("; ")
            ));
        }
        self.warnings.extend(single);
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::Text(value) => value.clone(),
    }
}
