//! Configuration files: flat JSON or YAML maps, chosen by extension. Invariant: keys keep the order
//! and spelling of the file until they are matched against the table.

use crate::error::FlagError;
use crate::limits::CONFIG_FILE_BYTES_MAX;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::io::Read;
use std::path::Path;

/// Reads a file into key and value texts.
///
/// # Errors
/// The file is unreadable, too large, of another extension, malformed, or not a flat map.
pub fn read_pairs(path: &Path) -> Result<Vec<(String, String)>, FlagError> {
    let text = read_bounded(path)?;
    let malformed = |cause: String| FlagError::FileMalformed { path: path.to_owned(), cause };
    let extension = path.extension().and_then(|ext| ext.to_str()).unwrap_or_default();
    let Pairs(pairs) = match extension {
        "json" => serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?,
        "yaml" | "yml" => {
            serde_yaml_ng::from_str(&text).map_err(|error| malformed(error.to_string()))?
        }
        _ => return Err(malformed("name it .json, .yaml or .yml".to_owned())),
    };
    pairs.into_iter().map(|(key, value)| scalar(key, value).map_err(malformed)).collect()
}

/// The entries of a file in its order; a key that is there twice is refused, because one of its
/// values would be lost.
struct Pairs(Vec<(String, serde_json::Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one map of setting names to values")
    }

    fn visit_unit<E: Error>(self) -> Result<Pairs, E> {
        Ok(Pairs(Vec::new()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs: Vec<(String, serde_json::Value)> = Vec::new();
        while let Some((key, value)) = map.next_entry()? {
            if pairs.iter().any(|(earlier, _)| *earlier == key) {
                return Err(A::Error::custom(format!("key `{key}` is there twice")));
            }
            pairs.push((key, value));
        }
        Ok(Pairs(pairs))
    }
}

pub(crate) fn read_bounded(path: &Path) -> Result<String, FlagError> {
    let unreadable = |error: std::io::Error| FlagError::FileUnreadable {
        path: path.to_owned(),
        cause: error.to_string(),
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(CONFIG_FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > CONFIG_FILE_BYTES_MAX {
        let cause = format!("it is larger than {CONFIG_FILE_BYTES_MAX} bytes");
        return Err(FlagError::FileMalformed { path: path.to_owned(), cause });
    }
    Ok(text)
}

fn scalar(key: String, value: serde_json::Value) -> Result<(String, String), String> {
    let text = match value {
        serde_json::Value::Bool(value) => value.to_string(),
        serde_json::Value::Number(value) => value.to_string(),
        serde_json::Value::String(value) => value,
        serde_json::Value::Null => return Err(format!("key `{key}` has no value")),
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
            return Err(format!("key `{key}` must hold one value, not a list or a map"));
        }
    };
    Ok((key, text))
}
