//! Whether memory that a caller names is there. The kernel is asked, so that the answer is a word
//! and not a signal.

use std::os::fd::AsRawFd;

use crate::limits::PROBED_BYTES_MAX;
use crate::mapping::page_bytes;

/// What is to be done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Loads.
    Read,
    /// Stores.
    Write,
}

/// Whether this process may touch every byte of a range. It costs about a microsecond.
#[must_use]
pub fn is_reachable(address: usize, len: usize, wanted: Use) -> bool {
    // Pages are looked at one by one, which for a large range costs half of a copy.
    if len > PROBED_BYTES_MAX
        && let Some(answer) = query(address, len, wanted)
    {
        return answer;
    }
    probe(address, len, wanted)
}

/// Whether a range is mapped and may be touched, as the kernel's list of mappings says; no page is
/// made. Where there is no list, it is.
#[must_use]
pub fn is_mapped(address: usize, len: usize, wanted: Use) -> bool {
    query(address, len, wanted).unwrap_or_else(|| {
        let list = std::fs::read_to_string("/proc/self/maps");
        list.map_or(true, |list| covers(&list, address, len, wanted))
    })
}

/// Makes the pages of a range, which the touch would do, and tells whether that went well.
fn probe(address: usize, len: usize, wanted: Use) -> bool {
    let Some((start, bytes)) = whole_pages(address, len) else {
        return false;
    };
    let advice = match wanted {
        Use::Read => libc::MADV_POPULATE_READ,
        Use::Write => libc::MADV_POPULATE_WRITE,
    };
    loop {
        // SAFETY: this advice makes pages and changes none; the kernel refuses what is not mapped.
        let status = unsafe { libc::madvise(start as *mut libc::c_void, bytes, advice) };
        let error = std::io::Error::last_os_error().raw_os_error();
        match (status, error) {
            (0, _) => return true,
            (_, Some(libc::EINTR | libc::EAGAIN)) => {}
            // Linux before 5.14, and memory of devices.
            (_, Some(libc::EINVAL)) => return is_mapped(address, len, wanted),
            _ => return false,
        }
    }
}

/// `struct procmap_query` of `linux/fs.h`.
#[derive(Default)]
#[repr(C)]
struct ProcmapQuery {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    rest: [u64; 8],
}

// The number of the call names the size, too.
const _: () = assert!(size_of::<ProcmapQuery>() == 0x68);

/// `PROCMAP_QUERY`: the mapping that holds an address and has the rights that are asked for.
const QUERY: libc::c_ulong = 0xc068_6611;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;

/// Asks the kernel for the mappings of a range, one by one; `None` before Linux 6.11.
fn query(address: usize, len: usize, wanted: Use) -> Option<bool> {
    let Some(end) = address.checked_add(len) else {
        return Some(false);
    };
    // Opened each time: after a fork an older one would show the parent's mappings.
    let list = std::fs::File::open("/proc/self/maps").ok()?;
    let mut reached = address as u64;
    while reached < end as u64 {
        let mut query = ProcmapQuery {
            size: size_of::<ProcmapQuery>() as u64,
            flags: match wanted {
                Use::Read => READABLE,
                Use::Write => READABLE | WRITABLE,
            },
            address: reached,
            ..ProcmapQuery::default()
        };
        // SAFETY: the kernel reads and fills a structure of the size that is in it.
        let status = unsafe { libc::ioctl(list.as_raw_fd(), QUERY, &raw mut query) };
        let error = std::io::Error::last_os_error().raw_os_error();
        match (status, error) {
            (0, _) if query.end > reached => reached = query.end,
            (_, Some(libc::ENOENT)) => return Some(false),
            _ => return None,
        }
    }
    Some(true)
}

/// The pages that a range lies in; `None` for one that no address space has.
fn whole_pages(address: usize, len: usize) -> Option<(usize, usize)> {
    let start = address - address % page_bytes();
    let end = address.checked_add(len)?;
    let end = end.checked_next_multiple_of(page_bytes())?;
    (len > 0).then_some((start, end - start))
}

/// Whether mappings that allow the use lie one behind the other over a range.
fn covers(list: &str, address: usize, len: usize, wanted: Use) -> bool {
    let Some(end) = address.checked_add(len) else {
        return false;
    };
    let mut reached = address;
    for line in list.lines() {
        let Some((start, stop, rights)) = mapping(line) else {
            continue;
        };
        let allowed = match wanted {
            Use::Read => rights.starts_with('r'),
            Use::Write => rights.starts_with("rw"),
        };
        if stop <= reached {
            continue;
        }
        if start > reached || !allowed {
            return false;
        }
        reached = stop;
        if reached >= end {
            return true;
        }
    }
    false
}

/// First byte, end and rights of a line such as `7f00-8000 rw-p ...`.
fn mapping(line: &str) -> Option<(usize, usize, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, stop) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(stop)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;

    const LIST: &str = "1000-2000 rw-p 0\n2000-3000 r--p 0\n3000-4000 ---p 0\n5000-6000 rw-p 0\n";

    #[test]
    fn a_range_needs_the_right_over_all_of_its_mappings() {
        let covers = |address, len, wanted| covers(LIST, address, len, wanted);
        assert!(covers(0x1000, 0x1000, Use::Write) && covers(0x1fff, 2, Use::Read));
        assert!(!covers(0x1fff, 2, Use::Write) && !covers(0x2fff, 2, Use::Read));
        assert!(!covers(0x4000, 1, Use::Read) && !covers(0xfff, 2, Use::Read));
        assert!(!covers(0x5fff, 2, Use::Read) && !covers(usize::MAX, 2, Use::Read));
    }

    #[test]
    fn the_kernel_answers_for_memory_that_is_there_and_for_memory_that_is_not() {
        let pages = Mapping::anonymous(4 * page_bytes()).unwrap();
        let (first, last) = (pages.base() as usize, pages.base() as usize + 3 * page_bytes());
        // SAFETY: the page belongs to the mapping, and nothing uses it.
        let closed = unsafe { libc::mprotect(last as *mut _, page_bytes(), libc::PROT_NONE) };
        assert_eq!(closed, 0);
        for wanted in [Use::Read, Use::Write] {
            for asked in [is_reachable, is_mapped, probe] {
                assert!(asked(first + 1, 3 * page_bytes() - 1, wanted));
                assert!(!asked(first, 3 * page_bytes() + 1, wanted));
                assert!(!asked(last, 1, wanted));
                assert!(!asked(0x10, 10, wanted));
                assert!(!asked(usize::MAX - 10, 10, wanted));
            }
        }
        let constant = LIST.as_ptr() as usize;
        assert!(is_reachable(constant, LIST.len(), Use::Read));
        assert!(!is_reachable(constant, LIST.len(), Use::Write));
        assert!(!is_mapped(constant, LIST.len(), Use::Write));
    }
}
