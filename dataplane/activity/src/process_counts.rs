//! What a process counts as a whole: calls of its program, and what went wrong in them. Invariant:
//! many threads count here, none of them for each block of bytes.

use crate::layout::PageHeader;
use crate::limits::PROCESS_COUNTERS;
use crate::page::{Page, page};
use crate::reader::{PageReader, word};
use std::io;
use std::mem::offset_of;
use std::sync::atomic::Ordering;

/// What is counted, by its place in the page.
#[derive(Clone, Copy, Debug)]
enum Counted {
    Calls,
    WrongBytes,
    UnreachableOwners,
}

/// What a process has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessReading {
    /// Calls of its program that ended; a call within another one is a part of that.
    pub calls: u64,
    /// Objects whose bytes did not match their checksum.
    pub wrong_bytes: u64,
    /// Transfers that failed because nothing answers at the endpoint of the segment's owner.
    pub unreachable_owners: u64,
}

/// Counts a call of the program that ended.
pub(crate) fn count_call() {
    count(page(), Counted::Calls);
}

/// Counts an object whose bytes did not match its checksum.
pub fn count_wrong_bytes() {
    count(page(), Counted::WrongBytes);
}

/// Counts a transfer that failed because nothing answers at the endpoint of the segment's owner.
pub fn count_unreachable_owner() {
    count(page(), Counted::UnreachableOwners);
}

fn count(page: Option<&Page>, what: Counted) {
    if let Some(page) = page {
        page.process_counters()[what as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl PageReader {
    /// What the process has counted; nothing in the page of an older build.
    ///
    /// # Errors
    /// The page has shrunk.
    pub fn process(&self) -> io::Result<ProcessReading> {
        let mut bytes = [0; 8 * PROCESS_COUNTERS];
        self.read_at(&mut bytes, offset_of!(PageHeader, process))?;
        let number = |what: Counted| u64::from_ne_bytes(word(&bytes, 8 * what as usize));
        Ok(ProcessReading {
            calls: number(Counted::Calls),
            wrong_bytes: number(Counted::WrongBytes),
            unreachable_owners: number(Counted::UnreachableOwners),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{PageDirectory, pages};

    #[test]
    fn a_reader_sees_what_all_threads_of_a_process_counted() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let page = Page::create(&directory).unwrap();
        let reader = pages(&directory).pop().unwrap();
        assert_eq!(reader.process().unwrap(), ProcessReading::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| count(Some(&page), Counted::Calls)));
            }
        });
        count(Some(&page), Counted::WrongBytes);
        (0..2).for_each(|_| count(Some(&page), Counted::UnreachableOwners));
        let expected = ProcessReading { calls: 4000, wrong_bytes: 1, unreachable_owners: 2 };
        assert_eq!(reader.process().unwrap(), expected);
    }
}
