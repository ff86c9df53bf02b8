//! Lengths and moments of time for people.

/// Such as `850 ns`, `51.2 us`, `1.82 ms` or `2.10 s`.
#[expect(clippy::cast_precision_loss, reason = "a shown time needs no more than 53 bits")]
pub(super) fn length_text(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

/// A moment in microseconds since 1970, such as `2026-11-28 12:41:03.123456 UTC`.
pub(super) fn moment_text(microseconds: u64) -> String {
    let (seconds, rest) = (microseconds / 1_000_000, microseconds % 1_000_000);
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{rest:06} UTC")
}

/// Year, month and day of a day since 1970, in the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // Whole spans of 400 years first, so that any number ends soon.
    let (mut year, mut left) = (1970 + days / 146_097 * 400, days % 146_097);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        let texts = [850, 51_234, 1_820_000, 2_100_000_000].map(length_text);
        assert_eq!(texts, ["850 ns", "51.2 us", "1.82 ms", "2.10 s"]);
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00.000007 UTC"),
            (951_868_799, "2000-02-29 23:59:59.000007 UTC"),
            (951_868_800, "2000-03-01 00:00:00.000007 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59.000007 UTC"),
            (1_795_869_663, "2026-11-28 12:41:03.000007 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00.000007 UTC"),
        ] {
            assert_eq!(moment_text(seconds * 1_000_000 + 7), text);
        }
        assert!(moment_text(u64::MAX).ends_with("UTC"));
    }
}
