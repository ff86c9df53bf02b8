//! Sizes in bytes for people. Invariant: the unit is the largest of which there is at least one.

const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// Such as `1.5 GiB`.
#[expect(clippy::cast_precision_loss, reason = "a shown size needs no more than 53 bits")]
pub(crate) fn size_text(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_in_the_largest_unit_that_fits() {
        let texts = [1023, 1024, 10_995_384_713_216, u64::MAX].map(size_text);
        assert_eq!(texts, ["1023 B", "1.0 KiB", "10.0 TiB", "16384.0 PiB"]);
    }
}
