//! Rails per memory location in Mooncake's shape. Invariant: what is written is read back as the
//! same value, and its text is what Mooncake writes for it, byte by byte.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::document;
use crate::error::TopologyError;
use crate::selection::Selection;

/// Name of the document in messages.
const WHAT: &str = "The NIC priority matrix";
/// Names under which a matrix may lie inside another document.
const WRAPPERS: [&str; 2] = ["nic_priority_matrix", "priority_matrix"];
/// A location that stands for all memory.
const ANY_LOCATION: &str = "*";

/// Devices of one memory location.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rails {
    /// Near ones.
    pub preferred: Vec<String>,
    /// Those to use when no preferred one works; for memory of the host also while the preferred
    /// ones are busy.
    pub others: Vec<String>,
}

/// Rails of all memory locations, by name of the location.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matrix {
    rows: BTreeMap<String, Rails>,
}

impl Matrix {
    /// A matrix of these rows.
    #[must_use]
    pub fn of(rows: impl IntoIterator<Item = (String, Rails)>) -> Self {
        Self { rows: rows.into_iter().collect() }
    }

    /// All rows by name of the location, in the order of the text.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &Rails)> {
        self.rows.iter().map(|(location, rails)| (location.as_str(), rails))
    }

    /// Rails of a location. `*` and a location without a row: all devices, none before another.
    /// `cuda:N` also finds the row of an AMD GPU.
    #[must_use]
    pub fn rails(&self, location: &str) -> Rails {
        let of_amd = location.strip_prefix("cuda:").map(|index| format!("hip:{index}"));
        let row = self.rows.get(location);
        let row = row.or_else(|| self.rows.get(&of_amd?));
        match row {
            Some(rails) if location != ANY_LOCATION => rails.clone(),
            _ => Rails { preferred: self.devices(), others: Vec::new() },
        }
    }

    /// Devices to use first for a location: the preferred ones, or the others if there is none.
    #[must_use]
    pub fn preferred(&self, location: &str) -> Vec<String> {
        let rails = self.rails(location);
        if rails.preferred.is_empty() { rails.others } else { rails.preferred }
    }

    /// Every device once, in the order of the text.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        let mut devices: Vec<String> = Vec::new();
        for rails in self.rows.values() {
            for name in rails.preferred.iter().chain(&rails.others) {
                if !devices.contains(name) {
                    devices.push(name.clone());
                }
            }
        }
        devices.sort_by_cached_key(|name| crate::roots::natural_key(name));
        devices
    }

    /// The same matrix with the allowed devices only.
    #[must_use]
    pub fn restricted_to(&self, selection: &Selection) -> Self {
        let kept = |names: &[String]| -> Vec<String> {
            names.iter().filter(|name| selection.allows(name)).cloned().collect()
        };
        Self::of(self.rows.iter().map(|(location, rails)| {
            let preferred = kept(&rails.preferred);
            let others = kept(&rails.others);
            (location.clone(), Rails { preferred, others })
        }))
    }

    /// The text Mooncake writes: tabs, every list over several lines, a line break at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        styled(&self.value(), 0, &mut text);
        text.push('\n');
        text
    }

    /// The same document on one line.
    #[must_use]
    pub fn to_compact_json(&self) -> String {
        self.value().to_string()
    }

    /// Reads a matrix, also one inside `nic_priority_matrix` or `priority_matrix`.
    ///
    /// # Errors
    /// The text is no JSON, too large, or of another shape.
    pub fn from_json(text: &str) -> Result<Self, TopologyError> {
        let mut rows = document::object(WHAT, text)?;
        for wrapper in WRAPPERS {
            if let Some(inner) = rows.remove(wrapper) {
                rows = as_object(wrapper, inner)?;
                break;
            }
        }
        document::check_entries(WHAT, rows.len())?;
        let rows = rows.into_iter().map(|(location, value)| {
            document::check_name(WHAT, &location)?;
            Ok((location.clone(), row(&location, value)?))
        });
        rows.collect::<Result<_, _>>().map(|rows| Self { rows })
    }

    fn value(&self) -> Value {
        let row = |rails: &Rails| Value::from(vec![rails.preferred.clone(), rails.others.clone()]);
        let rows = self.rows.iter().map(|(location, rails)| (location.clone(), row(rails)));
        Value::Object(rows.collect())
    }
}

fn as_object(name: &str, value: Value) -> Result<Map<String, Value>, TopologyError> {
    match value {
        Value::Object(rows) => Ok(rows),
        _ => Err(TopologyError::malformed(WHAT, format!("`{name}` is no object"))),
    }
}

/// `[["mlx5_0"], ["mlx5_1"]]`; the second list may be missing.
fn row(location: &str, value: Value) -> Result<Rails, TopologyError> {
    let shape = || {
        let cause = format!(
            "`{}` must be [[preferred devices], [other devices]]",
            crate::error::shown(location)
        );
        TopologyError::malformed(WHAT, cause)
    };
    let Value::Array(lists) = value else {
        return Err(shape());
    };
    if lists.is_empty() || lists.len() > 2 {
        return Err(shape());
    }
    let mut lists = lists.into_iter().map(|list| document::names(WHAT, list).ok_or_else(shape));
    let preferred = lists.next().transpose()?.unwrap_or_default();
    let mut others = lists.next().transpose()?.unwrap_or_default();
    others.retain(|name| !preferred.contains(name));
    Ok(Rails { preferred, others })
}

/// Lists and objects that are not empty begin on a line of their own.
fn styled(value: &Value, depth: usize, text: &mut String) {
    let indent = "\t".repeat(depth);
    match value {
        Value::Array(items) if !items.is_empty() => {
            text.push_str("[\n");
            for (position, item) in items.iter().enumerate() {
                text.push_str(&indent);
                text.push('\t');
                styled(item, depth + 1, text);
                text.push_str(if position + 1 < items.len() { ",\n" } else { "\n" });
            }
            text.push_str(&indent);
            text.push(']');
        }
        Value::Object(members) if !members.is_empty() => {
            text.push_str("{\n");
            for (position, (name, member)) in members.iter().enumerate() {
                text.push_str(&format!("{indent}\t{} : \n{indent}\t", Value::from(name.as_str())));
                styled(member, depth + 1, text);
                text.push_str(if position + 1 < members.len() { ",\n" } else { "\n" });
            }
            text.push_str(&indent);
            text.push('}');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests;
