//! Lists what a disk has, for a master that knows nothing any more. Nothing of it is kept in
//! memory, so it is read from the segments again, newest first.
//! Invariant: what is open and what is on its way when a listing begins comes from memory.

use super::change_notify::ChangeNotify;
use super::command::ListPromise;
use super::driver::DiskDriver;
use super::error::{ListError, ReadError};
use super::listing::{ListCursor, Listing};
use super::span::SpanReading;
use crate::limits::{LIST_IDLE, READ_DEADLINE};
use crate::recovery::{Found, SegmentScan};
use perigee_shard::{Environment, at_most};
use std::rc::Rc;

impl<E: Environment> DiskDriver<E> {
    pub(super) fn take_list(self: &Rc<Self>, from: Option<ListCursor>, promise: ListPromise) {
        let number = match from {
            None => self.begin_listing(),
            Some(cursor) => {
                let mut listing = self.listing.borrow_mut();
                let turned = listing.as_mut().ok_or(ListError::Ended);
                match turned.and_then(|listing| listing.turn_to(cursor)) {
                    Ok(()) => cursor.listing,
                    Err(error) => return promise.give(Err(error)),
                }
            }
        };
        self.with_listing(number, |listing| listing.is_filling = true);
        let driver = self.clone();
        self.environment.spawn(async move {
            let filled = driver.fill_page(number).await;
            let now = driver.now();
            let page = driver.with_listing(number, |listing| {
                debug_assert!(listing.is_filling, "one task fills a page");
                (listing.is_filling, listing.asked) = (false, now);
                filled.map(|()| listing.hand_out())
            });
            let page = page.unwrap_or(Err(ListError::Ended));
            if page.as_ref().is_ok_and(|page| page.next.is_none()) {
                driver.end_listing();
            }
            promise.give(page);
        });
    }

    /// What is open is in memory, and so are the tombstones that no segment has yet.
    fn begin_listing(&self) -> u64 {
        let (log, number) = (self.log.borrow(), self.listed.get() + 1);
        self.listed.set(number);
        let mut listing = Listing::new(number, log.listable(), self.now());
        for (key, last) in self.tombstones.borrow().waiting() {
            listing.liveness.note_void(key, last);
        }
        for it in log.tombstones_in_flight() {
            listing.liveness.note_void((it.hash, it.generation), it.sequence);
        }
        if let Some((sequence, entries)) = log.open_entries() {
            listing.take(sequence, entries);
        }
        *self.listing.borrow_mut() = Some(listing);
        number
    }

    async fn fill_page(self: &Rc<Self>, number: u64) -> Result<(), ListError> {
        loop {
            let wanted = self.with_listing(number, |listing| listing.wanted());
            let Some(sequence) = wanted.ok_or(ListError::Ended)? else { return Ok(()) };
            let entries = match self.scan_again(sequence).await? {
                Found::Segment { sequence: found, entries, .. } if found == sequence => entries,
                // Another one has its place, or it does not verify: a miss.
                _ => Vec::new(),
            };
            self.with_listing(number, |listing| listing.take(sequence, entries));
        }
    }

    /// Reads the structures of a segment.
    async fn scan_again(self: &Rc<Self>, sequence: u32) -> Result<Found, ReadError> {
        let mut scan = SegmentScan::new(self.log.borrow().superblock(), self.key.as_ref());
        while let Some(read) = scan.next_read() {
            if !self.takes_reads() {
                return Err(ReadError::State(self.cells.state()));
            }
            let Some((span, hold)) = self.block_span(sequence, read) else {
                return Ok(Found::Blank);
            };
            let changes = Rc::new(ChangeNotify::default());
            // The scan decrypts by itself: it knows what to do with blocks that do not verify.
            let reading = Rc::new(SpanReading::of(span, None, &changes));
            let end = self.now() + READ_DEADLINE;
            self.begin_readings(std::slice::from_ref(&reading), vec![hold], end).await;
            let is_over = changes.until(|| reading.is_over().then_some(()));
            let over = at_most(&self.environment, READ_DEADLINE, is_over).await;
            over.ok_or(ReadError::Late)?;
            scan.take(reading.blocks()?.as_slice());
        }
        Ok(scan.into_found())
    }

    fn with_listing<T>(&self, number: u64, work: impl FnOnce(&mut Listing) -> T) -> Option<T> {
        let mut listing = self.listing.borrow_mut();
        listing.as_mut().filter(|listing| listing.number == number).map(work)
    }

    /// A copy that is made void is in no page from now on.
    pub(super) fn unlist(&self, key: (u128, u64)) {
        if let Some(listing) = &mut *self.listing.borrow_mut() {
            listing.liveness.note_void(key, u32::MAX);
        }
    }

    pub(super) fn end_listing(&self) {
        self.listing.borrow_mut().take();
    }

    /// A listing that nothing asks for any more ends.
    pub(super) fn watch_listing(&self) {
        let now = self.now();
        let is_idle = |listing: &mut Listing| {
            !listing.is_filling && now.saturating_sub(listing.asked) > LIST_IDLE
        };
        self.listing.borrow_mut().take_if(is_idle);
    }
}
