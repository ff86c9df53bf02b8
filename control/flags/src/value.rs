//! Text to typed value, checked against kind and bounds. Invariant: a `Value` that exists is
//! within its flag's bounds.

use crate::error::FlagError;
use crate::flag::{Bounds, Flag, ValueKind};
use crate::limits::{SHOWN_VALUE_CHARS_MAX, VALUE_BYTES_MAX};
use crate::origin::Origin;
use crate::quantity::{parse_duration_ms, parse_size_bytes};

/// A value of one of the kinds; durations are milliseconds and sizes are bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// Integer, duration in milliseconds, or size in bytes.
    Integer(i128),
    /// Finite decimal number.
    Number(f64),
    /// Text.
    Text(String),
}

/// Reads `text` as the value of `flag`.
pub(crate) fn parse_value(flag: &Flag, text: &str, origin: &Origin) -> Result<Value, FlagError> {
    let value = Some(text)
        .filter(|text| text.len() <= VALUE_BYTES_MAX)
        .and_then(|text| read(flag.kind, text))
        .filter(|value| within(&flag.bounds, value));
    value.ok_or_else(|| FlagError::BadValue {
        name: flag.name,
        value: shortened(text),
        origin: origin.clone(),
        expected: expected(flag),
    })
}

/// At most the first few characters of a text from outside.
pub(crate) fn shortened(text: &str) -> String {
    if text.chars().count() <= SHOWN_VALUE_CHARS_MAX {
        return text.escape_debug().to_string();
    }
    let head: String = text.chars().take(SHOWN_VALUE_CHARS_MAX).collect();
    format!("{}...", head.escape_debug())
}

fn read(kind: ValueKind, text: &str) -> Option<Value> {
    let integer = |min: i128, max: i128| {
        parse_integer(text).filter(|n| (min..=max).contains(n)).map(Value::Integer)
    };
    match kind {
        ValueKind::Bool => parse_bool(text).map(Value::Bool),
        ValueKind::Int32 => integer(i32::MIN.into(), i32::MAX.into()),
        ValueKind::Uint32 => integer(0, u32::MAX.into()),
        ValueKind::Int64 => integer(i64::MIN.into(), i64::MAX.into()),
        ValueKind::Uint64 => integer(0, u64::MAX.into()),
        ValueKind::Double => {
            text.trim().parse().ok().filter(|n: &f64| n.is_finite()).map(Value::Number)
        }
        ValueKind::Text => Some(Value::Text(text.to_owned())),
        ValueKind::DurationMs => parse_duration_ms(text).map(|ms| Value::Integer(ms.into())),
        ValueKind::SizeBytes => parse_size_bytes(text).map(|bytes| Value::Integer(bytes.into())),
    }
}

/// Reads a decimal or `0x` integer.
fn parse_integer(text: &str) -> Option<i128> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) if hex.starts_with(['+', '-']) => None,
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Reads the words that mean yes or no, in any case.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" | "on" => Some(true),
        "false" | "f" | "no" | "n" | "0" | "off" => Some(false),
        _ => None,
    }
}

fn within(bounds: &Bounds, value: &Value) -> bool {
    match (bounds, value) {
        (Bounds::Integer { min, max }, Value::Integer(n)) => (min..=max).contains(&n),
        (Bounds::Number { min, max }, Value::Number(n)) => (min..=max).contains(&n),
        (Bounds::OneOf(words), Value::Text(text)) => words.contains(&text.as_str()),
        _ => true,
    }
}

/// What the flag accepts, for messages: "an integer from 0 to 65535".
fn expected(flag: &Flag) -> String {
    let noun = match flag.kind {
        ValueKind::Bool => "true or false",
        ValueKind::Int32 | ValueKind::Int64 => "an integer",
        ValueKind::Uint32 | ValueKind::Uint64 => "a non-negative integer",
        ValueKind::Double => "a number",
        ValueKind::Text => "a text",
        ValueKind::DurationMs => "milliseconds or a duration such as 500ms, 1.5s, 5m, 1h",
        ValueKind::SizeBytes => "bytes or a size such as 64MB, 4GB",
    };
    match flag.bounds {
        Bounds::Any => noun.to_owned(),
        Bounds::Integer { min, max } if flag.kind == ValueKind::DurationMs => {
            format!("{noun} from {min} ms to {max} ms")
        }
        Bounds::Integer { min, max } => format!("{noun} from {min} to {max}"),
        Bounds::Number { min, max } => format!("{noun} from {min} to {max}"),
        Bounds::OneOf(words) => format!("one of {}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(flag: &Flag, text: &str) -> Option<Value> {
        parse_value(flag, text, &Origin::CommandLine).ok()
    }

    #[test]
    fn integers_are_limited_by_kind_and_bounds() {
        let port = Flag::new("port", ValueKind::Int32, "0", "").within(0, 65535);
        assert_eq!(value_of(&port, "65535"), Some(Value::Integer(65535)));
        assert_eq!(value_of(&port, "0x10"), Some(Value::Integer(16)));
        for text in
            ["65536", "-1", "", "1.0", "0x-1", "abc", "99999999999999999999999999999999999999999"]
        {
            assert_eq!(value_of(&port, text), None, "{text}");
        }
    }

    #[test]
    fn ratios_refuse_values_outside_and_not_a_number() {
        let ratio = Flag::new("ratio", ValueKind::Double, "0", "").within_number(0.0, 1.0);
        assert_eq!(value_of(&ratio, "0.95"), Some(Value::Number(0.95)));
        for text in ["1.01", "-0.1", "NaN", "inf", ""] {
            assert_eq!(value_of(&ratio, text), None, "{text}");
        }
    }

    #[test]
    fn messages_say_what_is_accepted() {
        let mode = Flag::new("mode", ValueKind::Text, "off", "").one_of(&["off", "on"]);
        let error = parse_value(&mode, "perhaps", &Origin::CommandLine).unwrap_err();
        let text = error.to_string();
        assert_eq!(text, "Setting `mode` cannot be `perhaps` (command line); give one of off, on");
    }

    #[test]
    fn huge_values_are_shortened_in_messages() {
        let flag = Flag::new("n", ValueKind::Int32, "0", "");
        let error = parse_value(&flag, &"9".repeat(100_000), &Origin::CommandLine).unwrap_err();
        assert!(error.to_string().len() < 300);
    }
}
