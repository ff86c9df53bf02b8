//! Durations and sizes as people write them. Invariant: parsing is exact integer arithmetic except
//! for a written fraction, and overflow is refused, never wrapped.

/// Reads milliseconds: a bare number, or one with the suffix `ms`, `s`, `m` or `h`; decimals are
/// allowed with the last three, as in `1.5s`, and rounded down to a millisecond. Returns `None`
/// when the text is not a duration, is less than a millisecond without being 0, or does not fit 63
/// bits.
#[must_use]
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let (digits, unit) = split_unit(text);
    let unit_ms: u64 = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    if unit_ms == 1 && digits.contains('.') {
        return None;
    }
    // A limit that a user wrote must not turn into 0, which often means none.
    let is_zero = |digits: &str| digits.bytes().all(|c| matches!(c, b'0' | b'.'));
    units(digits, unit_ms).filter(|ms| *ms > 0 || is_zero(digits))
}

/// How a duration is written: in whole seconds if it is some, in milliseconds otherwise. Reads back
/// to the same.
#[must_use]
pub fn duration_text(ms: u64) -> String {
    if ms > 0 && ms.is_multiple_of(1_000) { format!("{}s", ms / 1_000) } else { format!("{ms}ms") }
}

/// Reads bytes: a bare number, or one (decimals allowed) with a unit `b`, `k`, `kb`, `kib`, up to
/// `t`, `tb`, `tib`, in any case; all units are powers of two.
/// Returns `None` when the text is not a size or does not fit 63 bits.
#[must_use]
pub fn parse_size_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = split_unit(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    units(digits, 1u64 << shift)
}

/// The number at the beginning of a text, and the unit behind it.
fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    (digits, unit.trim_start())
}

/// So many units of a size, rounded down; `None` for what is no number or does not fit 63 bits.
fn units(digits: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || (digits.contains('.') && fraction.is_empty()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    whole
        .checked_mul(unit)?
        .checked_add(part_of(fraction, unit)?)
        .filter(|sum| *sum <= i64::MAX as u64)
}

/// What the written fraction of one unit is, rounded down.
fn part_of(digits: &str, unit: u64) -> Option<u64> {
    /// More digits than this cannot change a whole byte of a tebibyte.
    const DIGITS_MAX: usize = 15;
    let digits = &digits[..digits.len().min(DIGITS_MAX)];
    if digits.is_empty() {
        return Some(0);
    }
    let numerator: u128 = digits.parse().ok()?;
    let denominator = 10u128.pow(u32::try_from(digits.len()).ok()?);
    u64::try_from(numerator * u128::from(unit) / denominator).ok()
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
            ("0", 0),
        ] {
            assert_eq!(parse_duration_ms(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn durations_take_fractions_of_a_second_a_minute_and_an_hour() {
        for (text, ms) in [
            ("0.6s", 600),
            ("1.5s", 1500),
            ("1.5 s", 1500),
            ("0.0019s", 1),
            ("0.1m", 6000),
            ("0.25h", 900_000),
            ("0.0s", 0),
        ] {
            assert_eq!(parse_duration_ms(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn a_written_duration_reads_back_to_itself() {
        for (ms, text) in [(0, "0ms"), (999, "999ms"), (1000, "1s"), (90_000, "90s")] {
            assert_eq!(duration_text(ms), text);
            assert_eq!(parse_duration_ms(text), Some(ms));
        }
    }

    #[test]
    fn durations_refuse_signs_parts_of_a_millisecond_other_units_and_overflow() {
        for text in [
            "",
            "s",
            "-1",
            "1.5",
            "1.5ms",
            "0.0009s",
            "1.s",
            ".5s",
            "1.2.3s",
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
        for text in ["", "gb", "50%", "-1", "1..5g", "1.g", ".5g", "4 G B", "99999999tb", "1e9"] {
            assert_eq!(parse_size_bytes(text), None, "{text}");
        }
    }
}
