//! What the kernel says about memory, for error texts and warnings.
//! Invariant: an unreadable or odd file gives `None`, never an error of its own.

mod cgroup;

use std::fs;

use crate::limits::{RESERVE_BYTES_MAX, RESERVE_BYTES_MIN, RESERVE_PART};

/// What a control group or the host has left of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// All memory.
    pub(crate) limit_bytes: u64,
    /// What can be had without swapping.
    pub(crate) left_bytes: u64,
}

impl Room {
    /// What segments may take: the reserve stays.
    pub(crate) fn spare_bytes(&self) -> u64 {
        let part = self.limit_bytes / RESERVE_PART;
        let reserve = part.clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
        self.left_bytes.saturating_sub(reserve)
    }
}

/// The value of one line of `/proc/meminfo` in bytes, or a plain count for lines without a unit.
pub(crate) fn field(name: &str) -> Option<u64> {
    parse_field(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn parse_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut words = line.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    match words.next() {
        Some("kB") => number.checked_mul(1024),
        None => Some(number),
        Some(_) => None,
    }
}

/// The tightest of the host and the control groups of this process; `None` where the system says
/// nothing.
pub(crate) fn headroom() -> Option<Room> {
    let host = field("MemAvailable").zip(field("MemTotal"));
    let host = host.map(|(left_bytes, limit_bytes)| Room { limit_bytes, left_bytes });
    let rooms = cgroup::rooms().into_iter().chain(host);
    rooms.min_by_key(Room::spare_bytes)
}

/// Size of the huge pages that MFD_HUGETLB uses by default.
pub(crate) fn huge_page_bytes() -> usize {
    let bytes = field("Hugepagesize").and_then(|bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| bytes.is_power_of_two()).unwrap_or(2 << 20)
}

/// Free pages of the hugetlb pool of this page size.
pub(crate) fn free_huge_pages(page_bytes: usize) -> u64 {
    let pool = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/free_hugepages", page_bytes >> 10);
    let free = fs::read_to_string(pool).ok().and_then(|text| text.trim().parse().ok());
    free.unwrap_or(0)
}

/// The chosen word of a sysfs choice such as `always [madvise] never`.
pub(crate) fn chosen(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Room, parse_field};

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

    #[test]
    fn a_reserve_stays_of_small_and_of_large_limits() {
        let spare = |limit_bytes, left_bytes| {
            let room = Room { limit_bytes, left_bytes };
            room.spare_bytes()
        };
        assert_eq!(spare(500 << 20, 472 << 20), 440 << 20);
        assert_eq!(spare(64 << 30, 64 << 30), 63 << 30);
        assert_eq!(spare(8 << 30, 1 << 30), (1 << 30) - (256 << 20));
        assert_eq!(spare(100 << 20, 20 << 20), 0);
    }
}
