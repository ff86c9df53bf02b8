//! A listing of a disk: which segments are to be read, what was found, which page comes next.
//! Invariant: a page has no copy that was void when it was handed out.

use super::error::ListError;
use crate::format::Entry;
use crate::limits::LIST_PAGE_OBJECTS;
use crate::recovery::{CopyLiveness, Survivor};
use std::time::Duration;

/// Which page of a listing comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListCursor {
    pub(super) listing: u64,
    page: u64,
}

/// Some of what a disk has.
#[derive(Debug, Default)]
pub struct ListedPage {
    /// Objects that are there.
    pub objects: Vec<Survivor>,
    /// Where the next ones are; none if these were the last.
    pub next: Option<ListCursor>,
}

/// A listing under way.
pub(super) struct Listing {
    pub(super) number: u64,
    /// Segments that were not read yet, the newest one last.
    segments: Vec<u32>,
    pub(super) liveness: CopyLiveness,
    /// What was read, and is not handed out.
    found: Vec<Survivor>,
    /// The page that was handed out last: its answer may have been lost.
    handed: Vec<Survivor>,
    page: u64,
    pub(super) is_filling: bool,
    /// When a page was asked for last.
    pub(super) asked: Duration,
}

impl Listing {
    /// Of these segments, oldest first.
    pub(super) fn new(number: u64, segments: Vec<u32>, now: Duration) -> Self {
        Self {
            number,
            segments,
            liveness: CopyLiveness::default(),
            found: Vec::new(),
            handed: Vec::new(),
            page: 0,
            is_filling: false,
            asked: now,
        }
    }

    /// Takes the entries of a segment, which must be newer than those that come later.
    pub(super) fn take(&mut self, sequence: u32, entries: Vec<Entry>) {
        self.segments.retain(|segment| *segment != sequence);
        let is_older = |segment: &u32| *segment < sequence;
        debug_assert!(self.segments.iter().all(is_older), "what made copies void is read first");
        self.found.extend(self.liveness.take(sequence, entries));
    }

    /// Prepares the page of a cursor.
    pub(super) fn turn_to(&mut self, cursor: ListCursor) -> Result<(), ListError> {
        if self.number != cursor.listing || ![self.page, self.page + 1].contains(&cursor.page) {
            return Err(ListError::Ended);
        }
        if self.is_filling {
            return Err(ListError::Busy);
        }
        if cursor.page > self.page {
            self.page = cursor.page;
            self.handed.clear();
        }
        Ok(())
    }

    /// The segment to read for the present page, unless it has enough.
    pub(super) fn wanted(&self) -> Option<u32> {
        let is_full = !self.handed.is_empty() || self.found.len() >= LIST_PAGE_OBJECTS;
        if is_full { None } else { self.segments.last().copied() }
    }

    pub(super) fn hand_out(&mut self) -> ListedPage {
        if self.handed.is_empty() {
            let count = self.found.len().min(LIST_PAGE_OBJECTS);
            self.handed = self.found.drain(..count).collect();
        }
        // What was found is newer than the tombstones that were read since: only what became void
        // during the listing is left out.
        let is_left = |object: &&Survivor| !self.liveness.is_void_everywhere(object);
        let objects = self.handed.iter().filter(is_left);
        let is_last = self.found.is_empty() && self.segments.is_empty();
        let next = ListCursor { listing: self.number, page: self.page + 1 };
        ListedPage { objects: objects.cloned().collect(), next: (!is_last).then_some(next) }
    }
}
