//! Numbers as people read them. Invariant: GB is 10^9 bytes, GiB is 2^30, Gb is 10^9 bits.

use std::str::FromStr;

/// Unit of bandwidths in texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BandwidthUnit {
    word: &'static str,
    bytes: f64,
}

/// All units, in the words of Mooncake's `--report_unit`.
const UNITS: [BandwidthUnit; 9] = [
    BandwidthUnit::new("GB", 1e9),
    BandwidthUnit::new("GiB", 1_073_741_824.0),
    BandwidthUnit::new("Gb", 1e9 / 8.0),
    BandwidthUnit::new("MB", 1e6),
    BandwidthUnit::new("MiB", 1_048_576.0),
    BandwidthUnit::new("Mb", 1e6 / 8.0),
    BandwidthUnit::new("KB", 1e3),
    BandwidthUnit::new("KiB", 1024.0),
    BandwidthUnit::new("Kb", 1e3 / 8.0),
];

impl BandwidthUnit {
    /// Words of the flag.
    pub(crate) const WORDS: &'static [&'static str] =
        &["GB", "GiB", "Gb", "MB", "MiB", "Mb", "KB", "KiB", "Kb"];

    const fn new(word: &'static str, bytes: f64) -> Self {
        Self { word, bytes }
    }

    /// The word: `GB`.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        self.word
    }

    /// So many bytes per second, in this unit per second.
    #[must_use]
    pub(crate) fn of(self, bytes_per_second: f64) -> f64 {
        bytes_per_second / self.bytes
    }
}

impl Default for BandwidthUnit {
    fn default() -> Self {
        UNITS[0]
    }
}

impl FromStr for BandwidthUnit {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let found = UNITS.iter().find(|unit| unit.word == word);
        found.copied().ok_or(())
    }
}

/// A size: `64 KiB`, `1 MiB`, `1000 B`.
#[must_use]
pub(crate) fn bytes_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole =
        units.iter().find(|(shift, _)| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift));
    match whole {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

/// A number in few characters: four digits, or all before the point if these are more.
pub(super) fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// Nanoseconds as microseconds.
pub(super) fn micros(nanos: u64) -> String {
    short(nanos as f64 / 1e3)
}

/// A time in the unit that suits it.
pub(super) fn time_text(nanos: f64) -> String {
    match nanos {
        n if n >= 1e9 => format!("{} s", short(n / 1e9)),
        n if n >= 1e6 => format!("{} ms", short(n / 1e6)),
        n => format!("{} us", short(n / 1e3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_flag_is_a_unit() {
        for word in BandwidthUnit::WORDS {
            assert_eq!(word.parse::<BandwidthUnit>().unwrap().word(), *word);
        }
        assert!("gb".parse::<BandwidthUnit>().is_err());
    }

    #[test]
    fn a_bit_is_the_eighth_of_a_byte() {
        let unit = |word: &str| word.parse::<BandwidthUnit>().unwrap();
        assert_eq!(unit("Gb").of(1e9), 8.0);
        assert_eq!(unit("GiB").of(1_073_741_824.0), 1.0);
        assert_eq!(unit("KB").of(1e3), 1.0);
    }

    #[test]
    fn sizes_are_whole_or_plain_bytes() {
        assert_eq!(bytes_text(4096), "4 KiB");
        assert_eq!(bytes_text(1 << 30), "1 GiB");
        assert_eq!(bytes_text(1000), "1000 B");
        assert_eq!(bytes_text((1 << 20) + 1024), "1025 KiB");
    }

    #[test]
    fn numbers_keep_four_digits() {
        assert_eq!(short(0.123_45), "0.123");
        assert_eq!(short(12.345), "12.35");
        assert_eq!(short(123_456.7), "123457");
        assert_eq!(time_text(1.5e9), "1.500 s");
        assert_eq!(time_text(999.0), "0.999 us");
    }
}
