//! Sizes as people write them: `4gb`, `1.5g`, `50GiB`, `3355443200`.
//! Invariant: every unit is a power of two (kb and KiB alike), and nothing is rounded silently but
//! the fraction of a byte.

/// Most digits after the decimal point that are understood.
const FRACTION_DIGITS_MAX: usize = 9;

/// The forms named by every error text.
const FORMS: &str =
    "give bytes (3355443200) or a number with a unit b, k, m, g, t, p (4gb, 1.5g, 50GiB)";

/// Why a text is not a size.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SizeError {
    /// Nothing to read.
    #[error("The size is empty; {FORMS}")]
    Empty,
    /// A share of something unknown.
    #[error("The size {0:?} is a percentage, which is not accepted; {FORMS}")]
    Percentage(String),
    /// Below zero.
    #[error("The size {0:?} is negative; {FORMS}")]
    Negative(String),
    /// A number, then something that is no unit.
    #[error("The size {text:?} has the unknown unit {unit:?}; {FORMS}")]
    Unit {
        /// The whole text.
        text: String,
        /// What stands behind the number.
        unit: String,
    },
    /// No number at its start.
    #[error("The size {0:?} does not begin with a plain number; {FORMS}")]
    Number(String),
    /// Part of a byte.
    #[error("The size {0:?} has a fraction but no unit; {FORMS}")]
    FractionOfByte(String),
    /// More than 64 bits hold.
    #[error("The size {0:?} is larger than 16 EiB; {FORMS}")]
    TooLarge(String),
}

/// Bytes meant by `text`, whatever its case and outer blanks.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let trimmed = text.trim();
    let given = || trimmed.to_owned();
    if trimmed.is_empty() {
        return Err(SizeError::Empty);
    }
    if trimmed.ends_with('%') {
        return Err(SizeError::Percentage(given()));
    }
    if trimmed.starts_with('-') {
        return Err(SizeError::Negative(given()));
    }
    let number_end =
        trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let has_point = number.contains('.');
    let bad_fraction = has_point && (fraction.is_empty() || fraction.contains('.'));
    if whole.is_empty() || bad_fraction || fraction.len() > FRACTION_DIGITS_MAX {
        return Err(SizeError::Number(given()));
    }
    let shift = unit_shift(unit.trim_start())
        .ok_or_else(|| SizeError::Unit { text: given(), unit: unit.trim_start().to_owned() })?;
    // A whole number that went through a decimal type, as configurations in YAML do.
    if shift == 0 && fraction.bytes().any(|digit| digit != b'0') {
        return Err(SizeError::FractionOfByte(given()));
    }
    scale(whole, fraction, shift).ok_or_else(|| SizeError::TooLarge(given()))
}

/// Power of two of a unit.
fn unit_shift(unit: &str) -> Option<u32> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        "p" | "pb" | "pib" => 50,
        _ => return None,
    })
}

/// `whole.fraction * 2^shift`, rounded down; the texts are digits.
fn scale(whole: &str, fraction: &str, shift: u32) -> Option<u64> {
    let whole: u64 = whole.parse().ok()?;
    let digits = if fraction.is_empty() { "0" } else { fraction };
    let tenths: u128 = digits.parse().ok()?;
    let scaled_fraction = (tenths << shift) / 10u128.pow(fraction.len() as u32);
    let bytes = (u128::from(whole) << shift).checked_add(scaled_fraction)?;
    u64::try_from(bytes).ok()
}

/// `bytes` in the largest unit that keeps it at least 1, with at most two decimals: `1.5 GiB`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let index = (bytes.checked_ilog2().unwrap_or(0) / 10) as usize;
    let shift = 10 * index as u32;
    let hundredths = (u128::from(bytes) * 100) >> shift;
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    let unit = UNITS[index];
    match (rest, rest % 10) {
        (0, _) => format!("{whole} {unit}"),
        (_, 0) => format!("{whole}.{} {unit}", rest / 10),
        _ => format!("{whole}.{rest:02} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{SizeError, format_bytes, parse_bytes};

    #[test]
    fn all_usual_forms_are_understood() {
        for (text, bytes) in [
            ("4gb", 4 << 30),
            ("3355443200", 3_355_443_200),
            ("50GiB", 50 << 30),
            ("16 MB", 16 << 20),
            ("1.5g", 3 << 29),
            ("64k", 64 << 10),
            ("0", 0),
            ("16777216.0", 16 << 20),
            (" 2 Tib ", 2 << 40),
            ("7b", 7),
            ("0.1k", 102),
            ("16383p", 16383 << 50),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn all_else_is_refused_for_its_own_reason() {
        let own = str::to_owned;
        assert_eq!(parse_bytes("  "), Err(SizeError::Empty));
        assert_eq!(parse_bytes("50%"), Err(SizeError::Percentage(own("50%"))));
        assert_eq!(parse_bytes("-1"), Err(SizeError::Negative(own("-1"))));
        assert_eq!(parse_bytes("1.5"), Err(SizeError::FractionOfByte(own("1.5"))));
        assert_eq!(parse_bytes("16384p"), Err(SizeError::TooLarge(own("16384p"))));
        assert_eq!(
            parse_bytes("18446744073709551616"),
            Err(SizeError::TooLarge(own("18446744073709551616")))
        );
        for text in ["gb", ".5g", "1.g", "1.2.3g", "+5", "0.1234567890g", "١"] {
            assert_eq!(parse_bytes(text), Err(SizeError::Number(own(text))), "{text}");
        }
        for text in ["4 g b", "1e9", "10 kbit", "0x10", "5-", "4,5g", "1_000"] {
            assert!(matches!(parse_bytes(text), Err(SizeError::Unit { .. })), "{text}");
        }
    }

    #[test]
    fn refusals_name_the_accepted_forms() {
        let text = parse_bytes("50%").unwrap_err().to_string();
        assert!(text.contains("\"50%\" is a percentage") && text.contains("4gb, 1.5g"), "{text}");
    }

    #[test]
    fn sizes_are_written_in_their_largest_unit() {
        assert_eq!(format_bytes(0), "0 B");
        assert_eq!(format_bytes(1023), "1023 B");
        assert_eq!(format_bytes(1024), "1 KiB");
        assert_eq!(format_bytes(3 << 29), "1.5 GiB");
        assert_eq!(format_bytes((1 << 20) + (1 << 14)), "1.01 MiB");
        assert_eq!(format_bytes(u64::MAX), "15.99 EiB");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse_bytes(&text);
        }

        #[test]
        fn plain_numbers_are_themselves(bytes in any::<u64>()) {
            prop_assert_eq!(parse_bytes(&bytes.to_string()), Ok(bytes));
        }
    }
}
