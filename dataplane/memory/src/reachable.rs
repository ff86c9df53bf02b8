//! Whether memory that a caller names is there. The kernel is asked, so that the answer is a word
//! and not a signal.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::{Arc, PoisonError, RwLock};

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

/// Mappings that the kernel was asked about, so that a call with many ranges asks once for each of
/// them.
#[derive(Debug, Default)]
pub struct KnownMappings {
    was_asked: bool,
    /// The kernel is older than the question.
    has_no_list: bool,
    /// The last of them, and what may be done there.
    last: Option<(Range<usize>, Use)>,
}

impl KnownMappings {
    /// Whether this process may touch every byte of a range. A question costs less than a
    /// microsecond.
    #[must_use]
    pub fn allow(&mut self, address: usize, len: usize, wanted: Use) -> bool {
        self.look(address, len, wanted).unwrap_or_else(|| probe(address, len, wanted))
    }

    /// As [`KnownMappings::allow`], of a range in a region that was registered. Linux before 6.11
    /// has no quick answer for it: both ends of the range are looked at there, and the call then
    /// believes all of the region.
    #[must_use]
    pub fn allow_in(
        &mut self,
        region: Range<usize>,
        address: usize,
        len: usize,
        wanted: Use,
    ) -> bool {
        debug_assert!(region.start <= address && address + len <= region.end);
        self.look(address, len, wanted).unwrap_or_else(|| {
            let are_there = probe(address, 1, wanted) && probe(address + len - 1, 1, wanted);
            self.last = are_there.then_some((region, wanted));
            are_there
        })
    }

    /// The answer, if it is known or quickly found.
    fn look(&mut self, address: usize, len: usize, wanted: Use) -> Option<bool> {
        let Some(end) = address.checked_add(len) else {
            return Some(false);
        };
        if let Some((known, may)) = &self.last
            && known.start <= address
            && end <= known.end
            && (*may == wanted || wanted == Use::Read)
        {
            return Some(true);
        }
        // Pages are looked at one by one, which for a large range costs half of a copy.
        if len <= PROBED_BYTES_MAX && !std::mem::replace(&mut self.was_asked, true) {
            return Some(probe(address, len, wanted));
        }
        let asked = (!self.has_no_list).then(|| query(address, len, wanted)).flatten();
        self.has_no_list = asked.is_none();
        let answer = asked?;
        self.last = answer.clone().map(|mapping| (mapping, wanted));
        Some(answer.is_some())
    }
}

/// As [`KnownMappings::allow`], of one range.
#[must_use]
pub fn is_reachable(address: usize, len: usize, wanted: Use) -> bool {
    KnownMappings::default().allow(address, len, wanted)
}

/// Whether a range is mapped and may be touched, as the kernel's list of mappings says; no page is
/// made. Where there is no list, it is.
#[must_use]
pub fn is_mapped(address: usize, len: usize, wanted: Use) -> bool {
    query(address, len, wanted).map_or_else(
        || {
            let list = std::fs::read_to_string("/proc/self/maps");
            list.map_or(true, |list| covers(&list, address, len, wanted))
        },
        |mapping| mapping.is_some(),
    )
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

/// The list of this process's mappings, kept open: to open it takes longer than all that is asked.
fn own_list() -> Option<Arc<File>> {
    static OPEN: RwLock<Option<(u32, Arc<File>)>> = RwLock::new(None);
    let process = std::process::id();
    let of_this = |open: &Option<(u32, Arc<File>)>| {
        // After a fork the list is the parent's.
        open.as_ref().filter(|(owner, _)| *owner == process).map(|(_, list)| list.clone())
    };
    if let Some(list) = of_this(&OPEN.read().unwrap_or_else(PoisonError::into_inner)) {
        return Some(list);
    }
    let list = Arc::new(File::open("/proc/self/maps").ok()?);
    *OPEN.write().unwrap_or_else(PoisonError::into_inner) = Some((process, list.clone()));
    Some(list)
}

/// Asks the kernel for the mappings of a range, one by one: the last of them with what lies before
/// it in the range, `Some(None)` if one is missing or has not the right; `None` before Linux 6.11.
fn query(address: usize, len: usize, wanted: Use) -> Option<Option<Range<usize>>> {
    let Some(end) = address.checked_add(len) else {
        return Some(None);
    };
    let list = own_list()?;
    let mut found: Option<Range<usize>> = None;
    while found.as_ref().is_none_or(|found| found.end < end) {
        let reached = found.as_ref().map_or(address, |found| found.end);
        let mut query = ProcmapQuery {
            size: size_of::<ProcmapQuery>() as u64,
            flags: match wanted {
                Use::Read => READABLE,
                Use::Write => READABLE | WRITABLE,
            },
            address: reached as u64,
            ..ProcmapQuery::default()
        };
        // SAFETY: the kernel reads and fills a structure of the size that is in it.
        let status = unsafe { libc::ioctl(list.as_raw_fd(), QUERY, &raw mut query) };
        let error = std::io::Error::last_os_error().raw_os_error();
        match (status, error) {
            (0, _) if query.end as usize > reached => {
                let start = found.map_or(query.start as usize, |found| found.start);
                found = Some(start..query.end as usize);
            }
            (_, Some(libc::ENOENT)) => return Some(None),
            _ => return None,
        }
    }
    Some(found)
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
    fn an_older_kernel_is_asked_for_the_ends_of_what_was_registered() {
        let pages = Mapping::anonymous(64 * page_bytes()).unwrap();
        let page = |number: usize| pages.base() as usize + number * page_bytes();
        let region = page(0)..page(64);
        let closed = page(63) as *mut libc::c_void;
        // SAFETY: the page belongs to the mapping, and nothing uses it.
        assert_eq!(unsafe { libc::mprotect(closed, page_bytes(), libc::PROT_NONE) }, 0);
        let known = || KnownMappings { has_no_list: true, ..KnownMappings::default() };
        let whole = |pages| pages * page_bytes();
        assert!(known().allow_in(region.clone(), page(0), whole(63), Use::Write));
        assert!(!known().allow_in(region.clone(), page(0), whole(64), Use::Read));
        assert!(!known().allow_in(region.clone(), page(63), 1, Use::Read));
        assert!(!known().allow(page(0), whole(64), Use::Read));
        let mut call = known();
        assert!(call.allow_in(region.clone(), page(0), 1, Use::Read));
        assert!(!call.allow_in(region.clone(), page(60), whole(4), Use::Read));
        assert!(call.allow_in(region, page(1), 1, Use::Read));
    }

    #[test]
    fn a_call_with_many_ranges_knows_where_a_right_ends() {
        let pages = Mapping::anonymous(8 * page_bytes()).unwrap();
        let page = |number: usize| pages.base() as usize + number * page_bytes();
        for (number, rights) in [(3, libc::PROT_NONE), (5, libc::PROT_READ)] {
            // SAFETY: the page belongs to the mapping, and nothing uses it.
            let set = unsafe { libc::mprotect(page(number) as *mut _, page_bytes(), rights) };
            assert_eq!(set, 0);
        }
        let mut known = KnownMappings::default();
        for _ in 0..3 {
            for number in 0..8 {
                assert_eq!(known.allow(page(number), page_bytes(), Use::Read), number != 3);
                let may_write = ![3, 5].contains(&number);
                assert_eq!(known.allow(page(number), page_bytes(), Use::Write), may_write);
            }
            assert!(known.allow(page(4), 4 * page_bytes(), Use::Read));
            assert!(!known.allow(page(4), 2 * page_bytes(), Use::Write));
            assert!(!known.allow(usize::MAX, 2, Use::Read));
        }
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
