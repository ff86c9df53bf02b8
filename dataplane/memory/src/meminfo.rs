//! What the kernel says about memory, for error texts and warnings.
//! Invariant: an unreadable or odd file gives `None`, never an error of its own.

mod cgroup;

use std::fs;

/// The value of one line of `/proc/meminfo` in bytes, or a plain count for lines without a unit.
pub(crate) fn field(name: &str) -> Option<u64> {
    parse_field(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn parse_field(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut words = line.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    match words.next() {
        Some("kB") => number.checked_mul(1024),
        None => Some(number),
        Some(_) => None,
    }
}

/// Memory that can be had without swapping, within this process's control group.
pub(crate) fn available_bytes() -> Option<u64> {
    let group = cgroup::available_bytes();
    [field("MemAvailable"), group].into_iter().flatten().min()
}

/// Size of the huge pages that MFD_HUGETLB uses by default.
pub(crate) fn huge_page_bytes() -> usize {
    let bytes = field("Hugepagesize").and_then(|bytes| usize::try_from(bytes).ok());
    bytes
        .filter(|bytes| bytes.is_power_of_two())
        .unwrap_or(2 << 20)
}

/// The chosen word of a sysfs choice such as `always [madvise] never`.
pub(crate) fn chosen(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse_field;

    const TEXT: &str = "MemTotal:  100 kB\nHugePages_Free:   3\nOdd: 4 MB\n";

    #[test]
    fn kilobytes_become_bytes_and_counts_stay() {
        assert_eq!(parse_field(TEXT, "MemTotal"), Some(102_400));
        assert_eq!(parse_field(TEXT, "HugePages_Free"), Some(3));
    }

    #[test]
    fn absent_and_odd_lines_have_no_value() {
        assert_eq!(parse_field(TEXT, "Mem"), None);
        assert_eq!(parse_field(TEXT, "Odd"), None);
    }
}
