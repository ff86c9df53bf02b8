//! Whether a range is memory of this process at all. A buffer that is not would turn a peer's
//! request into a fault of ours.

use crate::error::BufferError;
use std::sync::OnceLock;

/// Refuses host memory that is not mapped.
pub(crate) fn check_mapped(address: u64, bytes: u64) -> Result<(), BufferError> {
    if bytes == 0 || is_mapped(address, bytes) {
        return Ok(());
    }
    Err(BufferError::Unusable {
        address,
        bytes,
        reason: "part of it is not mapped in this process, and no accelerator here has it"
            .to_owned(),
    })
}

/// Whether the rights of every byte of a range begin with `rights` (`r`, `rw`), as far as the list
/// of mappings tells; `None` if it cannot be read.
pub(super) fn has_rights(address: u64, bytes: u64, rights: &str) -> Option<bool> {
    let list = std::fs::read_to_string("/proc/self/maps").ok()?;
    let end = address.saturating_add(bytes);
    Some(covers(list.lines(), rights, address, end))
}

/// Whether the kernel finds nothing against writing to a range now; it is asked for the pages that
/// the bytes need anyway. A kernel that does not know the question (before 5.14) finds nothing.
pub(super) fn takes_writes(address: u64, bytes: u64) -> bool {
    static IS_ANSWERED: OnceLock<bool> = OnceLock::new();
    let is_answered = || {
        let own = 0u8;
        populates(std::ptr::from_ref(&own) as u64, 1)
    };
    populates(address, bytes) || !*IS_ANSWERED.get_or_init(is_answered)
}

/// Has the kernel make the pages of a range ready to be written.
fn populates(address: u64, bytes: u64) -> bool {
    let Some((first, length)) = pages(address, bytes) else {
        return false;
    };
    let advice = libc::MADV_POPULATE_WRITE;
    // SAFETY: the call changes no byte; it refuses what is not mapped or may not be written.
    unsafe { libc::madvise(first as *mut libc::c_void, length, advice) == 0 }
}

/// Whether mappings with these rights follow each other from `next` to `end`; the kernel lists them
/// in order.
fn covers<'a>(lines: impl Iterator<Item = &'a str>, rights: &str, mut next: u64, end: u64) -> bool {
    for line in lines {
        let mut words = line.split_ascii_whitespace();
        let range = words.next().and_then(|range| range.split_once('-'));
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let bounds = range.and_then(|(from, to)| Some((number(from)?, number(to)?)));
        let is_allowed = words.next().is_some_and(|found| found.starts_with(rights));
        if let Some((from, to)) = bounds
            && (from..to).contains(&next)
        {
            if !is_allowed {
                return false;
            }
            next = to;
        }
        if next >= end {
            return true;
        }
    }
    false
}

fn is_mapped(address: u64, bytes: u64) -> bool {
    let Some((first, length)) = pages(address, bytes) else {
        return false;
    };
    // SAFETY: the call only looks at the process's list of mappings; MS_ASYNC starts no writing.
    unsafe { libc::msync(first as *mut libc::c_void, length, libc::MS_ASYNC) == 0 }
}

/// First page of a range, and the bytes from there to its end.
fn pages(address: u64, bytes: u64) -> Option<(u64, usize)> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let page = page.ok().flatten().and_then(|page| u64::try_from(page).ok()).unwrap_or(4096);
    let first = address - address % page;
    let length = address.checked_add(bytes)? - first;
    Some((first, length as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_the_rights_that_all_of_its_mappings_have_without_a_gap() {
        let list = "1000-2000 rw-p 0 00:00 0\n2000-3000 rw-s 0 00:00 0 /x\n3000-4000 r--p 0 00:00 0\n5000-6000 rw-p";
        for (from, to, expected) in [
            (0x1000, 0x3000, true),
            (0x1fff, 0x2001, true),
            (0x2fff, 0x3001, false),
            (0x0fff, 0x1001, false),
            (0x5000, 0x6001, false),
        ] {
            assert_eq!(covers(list.lines(), "rw", from, to), expected, "{from:x}-{to:x}");
        }
        assert!(covers(list.lines(), "r", 0x2fff, 0x3001));
        assert!(!covers("1000-2000 ---p 0".lines(), "r", 0x1000, 0x1001));
        let bytes = vec![0u8; 100_000];
        let code = check_mapped as fn(u64, u64) -> Result<(), BufferError> as usize as u64;
        for (address, bytes, expected) in
            [(bytes.as_ptr() as u64, 100_000, true), (code, 1, false), (64, 4096, false)]
        {
            assert_eq!(has_rights(address, bytes, "rw"), Some(expected));
            assert_eq!(takes_writes(address, bytes), expected);
        }
    }

    #[test]
    fn memory_of_this_process_is_distinguished_from_the_rest() {
        let bytes = vec![0u8; 100_000];
        let address = bytes.as_ptr() as u64;
        check_mapped(address, bytes.len() as u64).unwrap();
        assert!(check_mapped(64, 4096).is_err());
        assert!(check_mapped(u64::MAX - 4096, 4096).is_err());
    }
}
