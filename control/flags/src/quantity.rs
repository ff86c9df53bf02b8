//! Durations and sizes as people write them. Invariant: parsing is exact integer arithmetic except
//! for a written fraction, and overflow is refused, never wrapped.

/// Reads milliseconds: a bare number, or one with the suffix `ms`, `s`, `m` or `h`.
/// Returns `None` when the text is not a duration or does not fit 63 bits.
#[must_use]
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let count: u64 = digits.parse().ok()?;
    let unit_ms: u64 = match unit.trim_start() {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    count
        .checked_mul(unit_ms)
        .filter(|ms| *ms <= i64::MAX as u64)
}

/// Reads bytes: a bare number, or one (decimals allowed) with a unit `b`, `k`, `kb`, `kib`, up to
/// `t`, `tb`, `tib`, in any case; all units are powers of two.
/// Returns `None` when the text is not a size or does not fit 63 bits.
#[must_use]
pub fn parse_size_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || (digits.contains('.') && fraction.is_empty()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let whole_bytes = whole.checked_mul(1u64 << shift)?;
    let part_bytes = fraction_bytes(fraction, 1u64 << shift)?;
    whole_bytes
        .checked_add(part_bytes)
        .filter(|bytes| *bytes <= i64::MAX as u64)
}

/// Bytes of the written fraction of one unit, rounded down.
fn fraction_bytes(digits: &str, unit_bytes: u64) -> Option<u64> {
    /// More digits than this cannot change a whole byte of a tebibyte.
    const DIGITS_MAX: usize = 15;
    let digits = &digits[..digits.len().min(DIGITS_MAX)];
    if digits.is_empty() {
        return Some(0);
    }
    let numerator: u128 = digits.parse().ok()?;
    let denominator = 10u128.pow(u32::try_from(digits.len()).ok()?);
    u64::try_from(numerator * u128::from(unit_bytes) / denominator).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_default_to_milliseconds_and_take_four_suffixes() {
        for (text, ms) in [
            ("10000", 10_000),
            ("10s", 10_000),
            ("500ms", 500),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse_duration_ms(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn durations_refuse_signs_fractions_other_units_and_overflow() {
        for text in [
            "",
            "s",
            "-1",
            "1.5s",
            "1d",
            "10 sec",
            "99999999999999999999",
            "9999999999999999h",
        ] {
            assert_eq!(parse_duration_ms(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_two_in_any_case() {
        for (text, bytes) in [
            ("3355443200", 3_355_443_200),
            ("4 GB", 4 << 30),
            ("4gb", 4 << 30),
            ("50GiB", 50 << 30),
            ("16MB", 16 << 20),
            ("1.5k", 1536),
            ("0", 0),
            ("0.5g", 1 << 29),
        ] {
            assert_eq!(parse_size_bytes(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_refuse_percentages_signs_and_overflow() {
        for text in [
            "",
            "gb",
            "50%",
            "-1",
            "1..5g",
            "1.g",
            ".5g",
            "4 G B",
            "99999999tb",
            "1e9",
        ] {
            assert_eq!(parse_size_bytes(text), None, "{text}");
        }
    }
}
