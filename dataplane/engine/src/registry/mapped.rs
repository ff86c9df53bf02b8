//! Whether a range is memory of this process at all. A buffer that is not would turn a peer's request into a fault of ours.

use crate::error::EngineError;

/// Refuses host memory that is not mapped.
pub(crate) fn check_mapped(address: u64, bytes: u64) -> Result<(), EngineError> {
    if bytes == 0 || is_mapped(address, bytes) {
        return Ok(());
    }
    Err(EngineError::Buffer {
        address,
        bytes,
        reason: "part of it is not mapped in this process, and no accelerator here has it"
            .to_owned(),
    })
}

/// Whether every byte of a range may be written, as far as the list of mappings tells.
pub(super) fn is_writable(address: u64, bytes: u64) -> bool {
    let Ok(list) = std::fs::read_to_string("/proc/self/maps") else {
        return false;
    };
    covers(list.lines(), address, address.saturating_add(bytes))
}

/// Whether writable mappings follow each other from `next` to `end`; the kernel lists them in order.
fn covers<'a>(lines: impl Iterator<Item = &'a str>, mut next: u64, end: u64) -> bool {
    for line in lines {
        let mut words = line.split_ascii_whitespace();
        let range = words.next().and_then(|range| range.split_once('-'));
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let bounds = range.and_then(|(from, to)| Some((number(from)?, number(to)?)));
        let writable = words.next().is_some_and(|rights| rights.starts_with("rw"));
        if let Some((from, to)) = bounds
            && (from..to).contains(&next)
        {
            if !writable {
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
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let page = page
        .ok()
        .flatten()
        .and_then(|page| u64::try_from(page).ok())
        .unwrap_or(4096);
    let first = address - address % page;
    let Some(length) = address.checked_add(bytes).map(|end| end - first) else {
        return false;
    };
    // SAFETY: the call only looks at the process's list of mappings; MS_ASYNC starts no writing.
    let answer =
        unsafe { libc::msync(first as *mut libc::c_void, length as usize, libc::MS_ASYNC) };
    answer == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writable_mappings_without_a_gap_are_writable() {
        let list = "1000-2000 rw-p 0 00:00 0\n2000-3000 rw-s 0 00:00 0 /x\n3000-4000 r--p 0 00:00 0\n5000-6000 rw-p";
        for (from, to, expected) in [
            (0x1000, 0x3000, true),
            (0x1fff, 0x2001, true),
            (0x2fff, 0x3001, false),
            (0x0fff, 0x1001, false),
            (0x5000, 0x6001, false),
        ] {
            assert_eq!(covers(list.lines(), from, to), expected, "{from:x}-{to:x}");
        }
        let bytes = vec![0u8; 100_000];
        assert!(is_writable(bytes.as_ptr() as u64, 100_000));
        assert!(!is_writable(
            covers as fn(std::str::Lines<'static>, u64, u64) -> bool as usize as u64,
            1
        ));
    }

    #[test]
    fn memory_of_this_process_is_told_from_the_rest() {
        let bytes = vec![0u8; 100_000];
        let address = bytes.as_ptr() as u64;
        check_mapped(address, bytes.len() as u64).unwrap();
        assert!(check_mapped(64, 4096).is_err());
        assert!(check_mapped(u64::MAX - 4096, 4096).is_err());
    }
}
