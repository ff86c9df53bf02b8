//! Reading the rings of marks. Invariant: a mark is taken once, and only if it was whole both
//! before and after it was copied.

use super::ring_entry::whole_entry;
use super::{PageReader, word};
use crate::layout::{PageHeader, RINGS_OFFSET};
use crate::limits::{MARKS, RINGS, SLOW_CLASSES};
use crate::mark::BatchMark;
use crate::ring_cells::{
    COUNTS_BYTES, MARK_BYTES, MARK_WORDS, RECENT, RING_BYTES, SLOW, SLOW_COUNTS_OFFSET,
};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

/// How far a reader has come in the rings of one page.
#[derive(Clone, Debug, Default)]
pub struct RingsSeen {
    rings: Vec<RingSeen>,
    unplaced: u64,
}

/// How far a reader has come in one ring.
#[derive(Clone, Debug, Default)]
struct RingSeen {
    counts: [u64; 2],
    /// Slow batches by class that were taken, and those that were said to be lost.
    taken: [u64; SLOW_CLASSES],
    lost: [u64; SLOW_CLASSES],
}

/// New entries since the last reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkReading {
    /// The latest batches of each thread, and how many batches each stands for: those that were
    /// overwritten before they were seen count with those that were not.
    pub recent: Vec<(BatchMark, u64)>,
    /// Slow batches, with the time at which they ended.
    pub slow: Vec<BatchMark>,
    /// Slow batches that gave way to slower ones before they were seen, by how slow they were:
    /// classes begin at [`crate::slow_class_begin_ns`].
    pub slow_lost: [u64; SLOW_CLASSES],
    /// Batches of threads that found no ring.
    pub unplaced: u64,
}

impl PageReader {
    /// The batches that ended since the last call with the same `seen`; none in the page of an
    /// older build.
    ///
    /// # Errors
    /// The page has shrunk.
    pub fn marks(&self, seen: &mut RingsSeen) -> io::Result<MarkReading> {
        let mut reading = MarkReading::default();
        let room = self.number(offset_of!(PageHeader, rings))?.min(RINGS);
        let used = self.number(offset_of!(PageHeader, rings_used))?.min(room);
        seen.rings.resize(used.max(seen.rings.len()), RingSeen::default());
        for (ring, seen) in seen.rings.iter_mut().enumerate().take(used) {
            self.ring(ring, seen, &mut reading)?;
        }
        if room > 0 {
            let mut bytes = [0; 8];
            let offset = offset_of!(PageHeader, marks_lost) as u64;
            self.file.read_exact_at(&mut bytes, offset)?;
            let unplaced = u64::from_ne_bytes(bytes);
            reading.unplaced = unplaced.saturating_sub(seen.unplaced);
            seen.unplaced = unplaced;
        }
        Ok(reading)
    }

    fn ring(&self, ring: usize, seen: &mut RingSeen, reading: &mut MarkReading) -> io::Result<()> {
        let begin = (RINGS_OFFSET + ring * RING_BYTES) as u64;
        let mut head = [0; COUNTS_BYTES];
        self.file.read_exact_at(&mut head, begin)?;
        let counts = [RECENT, SLOW].map(|kind| u64::from_ne_bytes(word(&head, 8 * kind)));
        if counts == seen.counts {
            return Ok(());
        }
        // A mark that is being written differs between two copies, or has an odd number.
        let (mut before, mut after) = (vec![0; RING_BYTES], vec![0; RING_BYTES]);
        self.file.read_exact_at(&mut before, begin)?;
        self.file.read_exact_at(&mut after, begin)?;
        let taken = |kind: usize| {
            let begin = COUNTS_BYTES + kind * MARKS * MARK_BYTES;
            let part = begin..begin + MARKS * MARK_BYTES;
            let copies = before[part.clone()].chunks_exact(MARK_BYTES);
            let copies = copies.zip(after[part].chunks_exact(MARK_BYTES));
            let fresh = seen.counts[kind]..counts[kind];
            copies.filter_map(move |(one, other)| whole(one, other, fresh.clone()))
        };
        let recent: Vec<BatchMark> = taken(RECENT).collect();
        let slow: Vec<BatchMark> = taken(SLOW).collect();
        let ended = counts[RECENT].saturating_sub(seen.counts[RECENT]);
        reading.recent.extend(weighed(recent, ended));
        seen.counts = counts;
        seen.lose(&head, &slow, reading);
        reading.slow.extend(slow);
        Ok(())
    }
}

impl RingSeen {
    /// Slow batches that ended and are not among those that were taken are lost. One that ended
    /// after the counts were read is taken before it is known of.
    fn lose(&mut self, head: &[u8], slow: &[BatchMark], reading: &mut MarkReading) {
        for class in slow.iter().filter_map(BatchMark::slow_class) {
            self.taken[class] = self.taken[class].saturating_add(1);
        }
        for (class, sum) in reading.slow_lost.iter_mut().enumerate() {
            let ended = u64::from_ne_bytes(word(head, SLOW_COUNTS_OFFSET + 8 * class));
            let lost = ended.saturating_sub(self.taken[class]);
            *sum = sum.saturating_add(lost.saturating_sub(self.lost[class]));
            self.lost[class] = self.lost[class].max(lost);
        }
    }
}

/// A mark whose copies agree, if its count is a fresh one.
fn whole(one: &[u8], other: &[u8], fresh: std::ops::Range<u64>) -> Option<BatchMark> {
    let (_, words) = whole_entry::<MARK_WORDS>(one, other, &fresh)?;
    Some(BatchMark::decode(&words))
}

/// Shares `ended` batches among the marks of those that were seen.
fn weighed(marks: Vec<BatchMark>, ended: u64) -> impl Iterator<Item = (BatchMark, u64)> {
    let seen = marks.len() as u64;
    let each = ended.checked_div(seen).unwrap_or(0);
    let more = ended.checked_rem(seen).unwrap_or(0);
    let marks = marks.into_iter().zip(0..);
    marks.map(move |(mark, at): (_, u64)| (mark, each + u64::from(at < more)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{PageDirectory, pages};
    use crate::limits::SLOW_MARK_NS;
    use crate::page::Page;
    use crate::ring::MarkRing;
    use perigee_schemas::{Direction, Route};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn page() -> (tempfile::TempDir, &'static Page, PageReader) {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let reader = pages(&directory).pop().unwrap();
        (folder, page, reader)
    }

    fn mark(bytes: u64, wire_ns: u64) -> BatchMark {
        let mut mark = BatchMark::new(Route::Tcp, Direction::Read, "eth0", "10.0.0.9", "blue");
        (mark.operations, mark.bytes, mark.wire_ns) = (1, bytes, wire_ns);
        mark
    }

    #[test]
    fn every_batch_is_taken_once_while_the_reader_keeps_up() {
        let (_folder, page, reader) = page();
        let mut seen = RingsSeen::default();
        assert_eq!(reader.marks(&mut seen).unwrap(), MarkReading::default());
        let ring = MarkRing::claim(page).unwrap();
        for turn in 0..3 * MARKS as u64 {
            ring.put(&mark(turn, 9));
            let reading = reader.marks(&mut seen).unwrap();
            assert_eq!(reading.recent, [(mark(turn, 9), 1)]);
            assert!(reading.slow.is_empty());
        }
        drop(ring);
        // The next thread goes on in the same ring.
        MarkRing::claim(page).unwrap().put(&mark(7, 9));
        assert_eq!(reader.marks(&mut seen).unwrap().recent, [(mark(7, 9), 1)]);
    }

    #[test]
    fn a_slow_batch_outlasts_the_quick_ones_and_those_that_are_seen_stand_for_all() {
        let (_folder, page, reader) = page();
        let ring = MarkRing::claim(page).unwrap();
        ring.put(&mark(1, SLOW_MARK_NS));
        let ended = 10 * MARKS as u64 + 1;
        (1..ended).for_each(|_| ring.put(&mark(2, SLOW_MARK_NS - 1)));
        let reading = reader.marks(&mut RingsSeen::default()).unwrap();
        assert_eq!((reading.slow.len(), reading.slow[0].bytes), (1, 1));
        assert_ne!(reading.slow[0].ended_ms, 0);
        assert_eq!(reading.recent.len(), MARKS);
        assert_eq!(reading.recent.iter().map(|(_, each)| each).sum::<u64>(), ended);
        (0..2 * MARKS).for_each(|_| ring.put(&mark(3, SLOW_MARK_NS)));
        let mut seen = RingsSeen::default();
        let reading = reader.marks(&mut seen).unwrap();
        assert_eq!((reading.slow.len(), reading.slow_lost[0]), (MARKS, MARKS as u64 + 1));
    }

    #[test]
    fn of_many_slow_batches_the_slowest_stay_until_they_are_seen() {
        let (_folder, page, reader) = page();
        let ring = MarkRing::claim(page).unwrap();
        let mut seen = RingsSeen::default();
        let put = |mark: BatchMark| ring.put_slow(&mark, mark.slow_class().unwrap(), 10_000);
        put(mark(1, 200 * SLOW_MARK_NS));
        (0..10 * MARKS).for_each(|_| put(mark(2, SLOW_MARK_NS)));
        put(mark(3, 20 * SLOW_MARK_NS));
        (0..10 * MARKS).for_each(|_| put(mark(2, 2 * SLOW_MARK_NS)));
        let reading = reader.marks(&mut seen).unwrap();
        let slow = reading.slow.iter().map(|mark| mark.bytes).filter(|bytes| *bytes != 2);
        let mut slow: Vec<u64> = slow.collect();
        slow.sort_unstable();
        assert_eq!(slow, [1, 3], "they gave way to none that is quicker");
        let lost = 20 * MARKS as u64 - (MARKS as u64 - 2);
        assert_eq!(reading.slow_lost, [lost, 0, 0, 0, 0, 0], "none that was slower");
        // What was seen gives way, at the latest when it is old.
        assert_eq!(reader.marks(&mut seen).unwrap(), MarkReading::default());
        put(mark(4, 300 * SLOW_MARK_NS));
        let reading = reader.marks(&mut seen).unwrap();
        assert_eq!((reading.slow.len(), reading.slow_lost), (1, [0; SLOW_CLASSES]));
    }

    #[test]
    fn a_slow_batch_gives_way_when_it_is_old() {
        let (_folder, page, reader) = page();
        let ring = MarkRing::claim(page).unwrap();
        let old = mark(1, 200 * SLOW_MARK_NS);
        ring.put_slow(&old, old.slow_class().unwrap(), 10_000);
        let new = mark(2, SLOW_MARK_NS);
        (0..MARKS as u64).for_each(|turn| ring.put_slow(&new, 0, 13_000 + turn));
        let reading = reader.marks(&mut RingsSeen::default()).unwrap();
        assert!(reading.slow.iter().all(|mark| mark.bytes == 2));
        assert_eq!(reading.slow_lost, [0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn threads_beyond_the_last_ring_are_counted_and_not_shown() {
        let (_folder, page, reader) = page();
        let rings: Vec<_> = (0..RINGS).map(|_| MarkRing::claim(page).unwrap()).collect();
        assert!(MarkRing::claim(page).is_none());
        page.marks_lost().store(5, Ordering::Relaxed);
        let mut seen = RingsSeen::default();
        assert_eq!(reader.marks(&mut seen).unwrap().unplaced, 5);
        assert_eq!(reader.marks(&mut seen).unwrap().unplaced, 0);
        drop(rings);
        assert!(MarkRing::claim(page).is_some());
    }

    /// The kernel lets a process write what it likes into its own page.
    #[test]
    fn a_page_that_lies_gives_no_more_than_it_has_room_for() {
        let (_folder, _page, reader) = page();
        let file = std::fs::OpenOptions::new().write(true).open(reader.path()).unwrap();
        let put = |offset: usize, bytes: &[u8]| file.write_all_at(bytes, offset as u64).unwrap();
        put(offset_of!(PageHeader, rings), &[0xff; 16]);
        // Every number is even and within the count, which is the largest there is.
        let mark = [&u64::MAX.wrapping_sub(1).to_ne_bytes()[..], &[0xff; MARK_BYTES - 8]].concat();
        let ring = [&[0xff; COUNTS_BYTES][..], &mark.repeat(2 * MARKS)].concat();
        (0..RINGS).for_each(|at| put(RINGS_OFFSET + at * RING_BYTES, &ring));
        let mut seen = RingsSeen::default();
        let reading = reader.marks(&mut seen).unwrap();
        assert_eq!((reading.recent.len(), reading.slow.len()), (RINGS * MARKS, RINGS * MARKS));
        assert!(reading.recent.iter().all(|(mark, _)| mark.total_ns() == u64::MAX));
        assert_eq!(reader.marks(&mut seen).unwrap(), MarkReading::default());
        // Counts that fall give nothing, and those that go on from there are taken.
        put(RINGS_OFFSET, &[0; 16]);
        assert_eq!(reader.marks(&mut seen).unwrap(), MarkReading::default());
        file.set_len(RINGS_OFFSET as u64).unwrap();
        assert!(reader.marks(&mut seen).is_err());
    }

    /// All numbers of a mark are the same, so a torn one would show.
    #[test]
    fn no_mark_is_torn_while_its_thread_writes() {
        let (_folder, page, reader) = page();
        let stop = AtomicBool::new(false);
        let mut taken = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let ring = MarkRing::claim(page).unwrap();
                for turn in 0.. {
                    let mut mark = mark(turn, turn);
                    (mark.operations, mark.peer_ns, mark.queue_ns) = (turn, turn, turn);
                    ring.put(&mark);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let mut seen = RingsSeen::default();
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while taken < 2000 && std::time::Instant::now() < deadline {
                let reading = reader.marks(&mut seen).unwrap();
                for (mark, _) in &reading.recent {
                    let numbers = [mark.operations, mark.wire_ns, mark.peer_ns, mark.queue_ns];
                    assert_eq!(numbers, [mark.bytes; 4]);
                }
                taken += reading.recent.len();
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(taken >= 2000, "{taken} marks in a minute");
    }
}
