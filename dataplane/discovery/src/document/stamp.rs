//! The time of making of a document, as Mooncake writes it: `2026-11-21 12:06:54.945639`, UTC.
//! Invariant: texts of later times compare greater.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;
/// Days of 400 Gregorian years, after which the calendar repeats.
const DAYS_PER_CYCLE: u64 = 146_097;
const DAYS_BEFORE_EPOCH: u64 = 719_468;

pub(super) fn now() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    text(since_epoch.unwrap_or_default())
}

fn text(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = date(seconds / SECONDS_PER_DAY);
    let second = seconds % SECONDS_PER_DAY;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:06}",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since_epoch.subsec_micros()
    )
}

/// Year, month and day. Years begin in March here, so that the leap day is their last day.
fn date(days_since_epoch: u64) -> (u64, u64, u64) {
    let days = days_since_epoch + DAYS_BEFORE_EPOCH;
    let day_of_cycle = days % DAYS_PER_CYCLE;
    let leap_days = day_of_cycle / 1460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
    let year_of_cycle = (day_of_cycle - leap_days) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12 + 1;
    let year = days / DAYS_PER_CYCLE * 400 + year_of_cycle + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_are_right() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_454, (2026, 1, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected, "day {days}");
        }
    }

    #[test]
    fn text_has_microseconds() {
        let time = Duration::new(1_795_262_814, 945_639_000);
        assert_eq!(text(time), "2026-11-21 12:06:54.945639");
    }
}
