//! The page of this process: where it lies, who has which slot.
#![expect(unsafe_code, reason = "it maps the page that others read")]

use crate::directory::PageDirectory;
use crate::disk_cells::DiskPlaceCells;
use crate::error::PageError;
use crate::folder::{has_reader, mark_ended};
use crate::group::control_group;
use crate::layout::{
    Cells, DISKS_OFFSET, HEADER_BYTES, LINKS_OFFSET, LinkCells, LinkKey, MAGIC, PAGE_BYTES,
    PageHeader, QUARTERS, QUARTERS_OFFSET, QuarterCells, RINGS_OFFSET, SLOT_BYTES, SPANS_OFFSET,
    SlotKey, VERSION,
};
use crate::limits::{DISKS, LINKS, PROCESS_COUNTERS, RINGS, SLOTS, SPANS};
use crate::ring_cells::RingCells;
use crate::span::Span;
use crate::span_ring::SpanRing;
use nix::fcntl::Flock;
use nix::libc::atexit;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::collections::HashMap;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The counters of a process.
#[derive(Debug)]
pub struct Page {
    header: &'static PageHeader,
    cells: &'static [Cells],
    quarters: &'static [QuarterCells],
    links: &'static [LinkCells],
    rings: &'static [RingCells],
    disks: &'static [DiskPlaceCells],
    /// The one that holds it writes.
    spans: Mutex<&'static SpanRing>,
    claims: Mutex<FreeSlots<SlotKey>>,
    link_claims: Mutex<FreeSlots<LinkKey>>,
    ring_claims: Mutex<FreeSlots<()>>,
    disk_claims: Mutex<FreeSlots<()>>,
    /// Locked for as long as the process lives, which tells readers that the page is not a
    /// leftover.
    file: Option<Flock<File>>,
    path: Option<PathBuf>,
}

/// The place of a slot.
#[derive(Debug)]
pub(crate) struct ClaimedSlot {
    pub(crate) index: usize,
    pub(crate) cells: &'static Cells,
    pub(crate) quarters: &'static QuarterCells,
}

#[derive(Debug)]
struct FreeSlots<K> {
    used: usize,
    idle: HashMap<K, Vec<usize>>,
}

impl<K> Default for FreeSlots<K> {
    fn default() -> Self {
        Self { used: 0, idle: HashMap::new() }
    }
}

/// The page of this process, made at the first call. Where no file can be made it is private, and
/// [`Page::path`] is `None`.
pub fn page() -> Option<&'static Page> {
    let make = || {
        let directory = PageDirectory::from_environment();
        let made = directory.and_then(|directory| {
            let made = Page::create(&directory);
            made.inspect_err(|error| tracing::warn!("{error}; no agent sees this process")).ok()
        });
        if made.is_some() {
            // SAFETY: the function is there as long as this code is. Where it finds no room, the
            // page stays as a leftover.
            unsafe { atexit(remove_own_page) };
        }
        made.or_else(|| Page::private().ok())
    };
    PAGE.get_or_init(make).as_ref()
}

static PAGE: OnceLock<Option<Page>> = OnceLock::new();

/// Takes the page from the folder when the process ends in order, unless a reader is near: it has
/// not seen the last counts yet, and removes the page when it has. A child that was forked ends
/// like this too, and leaves its parent's page alone.
extern "C" fn remove_own_page() {
    let page = PAGE.get().and_then(Option::as_ref);
    if let Some(page) = page
        && page.header.pid.load(Ordering::Relaxed) == std::process::id()
        && let (Some(path), Some(file)) = (&page.path, &page.file)
    {
        let _ = match path.parent().is_some_and(has_reader) {
            true => mark_ended(file),
            false => std::fs::remove_file(path),
        };
    }
}

impl Page {
    /// A page that other processes can read.
    ///
    /// # Errors
    /// The folder cannot be written or the memory cannot be mapped.
    pub fn create(directory: &PageDirectory) -> Result<Self, PageError> {
        let (file, path) = directory.create_page(PAGE_BYTES as u64)?;
        let flags = MapFlags::MAP_SHARED;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of this
        // program.
        let base = unsafe { mmap(None, page_bytes(), writable(), flags, &*file, 0) };
        let base = base.map_err(map_error)?;
        Ok(Self::over(base.cast(), Some(file), Some(path)))
    }

    /// A page that only this process sees.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn private() -> Result<Self, PageError> {
        let flags = MapFlags::MAP_PRIVATE;
        // SAFETY: as in `create`.
        let base = unsafe { mmap_anonymous(None, page_bytes(), writable(), flags) };
        Ok(Self::over(base.map_err(map_error)?.cast(), None, None))
    }

    fn over(base: NonNull<u8>, file: Option<Flock<File>>, path: Option<PathBuf>) -> Self {
        // SAFETY: the mapping has `PAGE_BYTES` zero bytes, is aligned to a page, and is never
        // unmapped; all types are made of atomics, for which zero bytes are values and other
        // processes' accesses are no data race.
        let (header, cells, links, rings, spans, quarters, disks) = unsafe {
            let cells = base.add(HEADER_BYTES).cast::<Cells>();
            let cells = std::slice::from_raw_parts(cells.as_ptr(), SLOTS);
            let links = base.add(LINKS_OFFSET).cast::<LinkCells>();
            let links = std::slice::from_raw_parts(links.as_ptr(), LINKS);
            let rings = base.add(RINGS_OFFSET).cast::<RingCells>();
            let rings = std::slice::from_raw_parts(rings.as_ptr(), RINGS);
            let spans = base.add(SPANS_OFFSET).cast::<SpanRing>().as_ref();
            let quarters = base.add(QUARTERS_OFFSET).cast::<QuarterCells>();
            let quarters = std::slice::from_raw_parts(quarters.as_ptr(), SLOTS);
            let disks = base.add(DISKS_OFFSET).cast::<DiskPlaceCells>();
            let disks = std::slice::from_raw_parts(disks.as_ptr(), DISKS);
            (base.cast::<PageHeader>().as_ref(), cells, links, rings, spans, quarters, disks)
        };
        let page = Self {
            header,
            cells,
            quarters,
            links,
            rings,
            disks,
            spans: Mutex::new(spans),
            claims: Mutex::default(),
            link_claims: Mutex::default(),
            ring_claims: Mutex::default(),
            disk_claims: Mutex::default(),
            file,
            path,
        };
        page.introduce();
        page
    }

    /// Fills the header; the magic number comes last, it makes the rest valid.
    fn introduce(&self) {
        let header = self.header;
        header.version.store(VERSION, Ordering::Relaxed);
        header.header_bytes.store(HEADER_BYTES as u32, Ordering::Relaxed);
        header.slot_bytes.store(SLOT_BYTES as u32, Ordering::Relaxed);
        header.slots.store(SLOTS as u32, Ordering::Relaxed);
        header.links.store(LINKS as u32, Ordering::Relaxed);
        header.rings.store(RINGS as u32, Ordering::Relaxed);
        header.spans.store(SPANS as u64, Ordering::Relaxed);
        header.quarters.store(QUARTERS as u64, Ordering::Relaxed);
        header.disks.store(DISKS as u32, Ordering::Relaxed);
        header.pid.store(std::process::id(), Ordering::Relaxed);
        let program = std::env::args_os().next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or_default();
        let bytes = program.as_encoded_bytes();
        for (word, chunk) in header.program.iter().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        let network = std::fs::metadata("/proc/self/ns/net").map_or(0, |space| space.ino());
        header.network.store(network, Ordering::Relaxed);
        header.group.store(control_group().unwrap_or(0), Ordering::Relaxed);
        // Last: a reader that sees it finds the rest of the header.
        header.magic.store(MAGIC, Ordering::Release);
    }

    /// The file that others read, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// A place for a thread: one that an earlier thread gave back, whose counters go on; else an
    /// unused one.
    pub(crate) fn claim_slot(&'static self, key: SlotKey) -> Option<ClaimedSlot> {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match claims.idle.get_mut(&key).and_then(Vec::pop) {
            Some(index) => index,
            None if claims.used < SLOTS => {
                let index = claims.used;
                let cells = &self.cells[index];
                for (cell, word) in cells.key.iter().zip(key.encode()) {
                    cell.store(word, Ordering::Relaxed);
                }
                claims.used = index + 1;
                // After the key: a reader takes only places below this number.
                self.header.used.store(claims.used as u32, Ordering::Release);
                index
            }
            None => return None,
        };
        Some(ClaimedSlot { index, cells: &self.cells[index], quarters: &self.quarters[index] })
    }

    /// A place for a connection: one that a connection between the same ends gave back, whose
    /// counters go on; else an unused one; else the place of other ends, whose counters are lost.
    pub(crate) fn claim_link(&'static self, key: LinkKey) -> Option<(usize, &'static LinkCells)> {
        let mut claims = self.link_claims.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = claims.idle.get_mut(&key).and_then(Vec::pop) {
            return Some((index, &self.links[index]));
        }
        if claims.used == LINKS {
            claims.idle.retain(|_, places| !places.is_empty());
            let index = claims.idle.values_mut().find_map(Vec::pop)?;
            self.links[index].begin(&key);
            return Some((index, &self.links[index]));
        }
        let index = claims.used;
        claims.used = index + 1;
        self.links[index].begin(&key);
        // After its names, for the same reason as with slots.
        let used = &self.header.links_used;
        used.store(claims.used as u32, Ordering::Release);
        Some((index, &self.links[index]))
    }

    pub(crate) fn give_back_link(&self, index: usize) {
        let words = self.links[index].key.each_ref();
        let key = LinkKey::decode(words.map(|word| word.load(Ordering::Relaxed)));
        let mut claims = self.link_claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.idle.entry(key).or_default().push(index);
    }

    /// A ring of marks for a thread: one that an earlier thread gave back, else an unused one.
    pub(crate) fn claim_ring(&'static self) -> Option<(usize, &'static RingCells)> {
        let mut claims = self.ring_claims.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = claims.idle.get_mut(&()).and_then(Vec::pop) {
            return Some((index, &self.rings[index]));
        }
        let cells = self.rings.get(claims.used)?;
        let index = claims.used;
        claims.used = index + 1;
        self.header.rings_used.store(claims.used as u32, Ordering::Release);
        Some((index, cells))
    }

    pub(crate) fn give_back_ring(&self, index: usize) {
        let mut claims = self.ring_claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.idle.entry(()).or_default().push(index);
    }

    /// A place for a disk: one that an earlier disk gave back, else an unused one.
    pub(crate) fn claim_disk(&'static self) -> Option<(usize, &'static DiskPlaceCells)> {
        let mut claims = self.disk_claims.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = claims.idle.get_mut(&()).and_then(Vec::pop) {
            return Some((index, &self.disks[index]));
        }
        let cells = self.disks.get(claims.used)?;
        let index = claims.used;
        claims.used = index + 1;
        self.header.disks_used.store(claims.used as u32, Ordering::Release);
        Some((index, cells))
    }

    pub(crate) fn give_back_disk(&self, index: usize) {
        let mut claims = self.disk_claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.idle.entry(()).or_default().push(index);
    }

    /// Shows spans, one behind the other.
    pub(crate) fn put_spans(&self, spans: &[Span]) {
        let ring = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        spans.iter().for_each(|span| ring.put(&span.encode()));
    }

    /// Whether an agent was near in the last minute.
    pub(crate) fn has_reader(&self) -> bool {
        self.path.as_deref().and_then(Path::parent).is_some_and(has_reader)
    }

    /// Batches of threads that found no ring.
    pub(crate) fn process_counters(&self) -> &[AtomicU64; PROCESS_COUNTERS] {
        &self.header.process
    }

    pub(crate) fn marks_lost(&self) -> &AtomicU64 {
        &self.header.marks_lost
    }

    pub(crate) fn give_back(&self, index: usize) {
        let words = self.cells[index].key.each_ref();
        if let Some(key) = SlotKey::decode(words.map(|word| word.load(Ordering::Relaxed))) {
            let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
            claims.idle.entry(key).or_default().push(index);
        }
    }
}

fn page_bytes() -> NonZeroUsize {
    NonZeroUsize::new(PAGE_BYTES).unwrap_or(NonZeroUsize::MIN)
}

fn writable() -> ProtFlags {
    ProtFlags::PROT_READ | ProtFlags::PROT_WRITE
}

fn map_error(error: nix::Error) -> PageError {
    PageError::Map { bytes: PAGE_BYTES, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Slot;
    use crate::stages::Stages;
    use perigee_schemas::{Direction, Route};

    fn leaked() -> &'static Page {
        Box::leak(Box::new(Page::private().unwrap()))
    }

    fn key(shard: u16) -> SlotKey {
        SlotKey::new("eth0", Route::Tcp, Direction::Write, shard)
    }

    #[test]
    fn a_slot_given_back_goes_on_counting_for_the_same_key() {
        let page = leaked();
        let first = Slot::claim(page, key(0)).unwrap();
        first.record(10, &Stages::whole(100, 0));
        drop(first);
        let other = Slot::claim(page, key(1)).unwrap();
        let again = Slot::claim(page, key(0)).unwrap();
        again.record(5, &Stages::whole(100, 0));
        assert_eq!(page.cells[0].bytes.load(Ordering::Relaxed), 15);
        assert_eq!(page.cells[1].bytes.load(Ordering::Relaxed), 0);
        assert_eq!(other.key(), Some(key(1)));
    }

    #[test]
    fn two_writers_of_one_key_have_two_slots() {
        let page = leaked();
        let (one, two) = (Slot::claim(page, key(0)).unwrap(), Slot::claim(page, key(0)).unwrap());
        one.record(1, &Stages::whole(1, 1));
        two.record(2, &Stages::whole(2, 2));
        let bytes = |index: usize| page.cells[index].bytes.load(Ordering::Relaxed);
        assert_eq!((bytes(0), bytes(1)), (1, 2));
    }

    #[test]
    fn a_full_page_hands_out_no_slot() {
        let page = leaked();
        let slots: Vec<_> = (0..SLOTS).map(|n| Slot::claim(page, key(n as u16)).unwrap()).collect();
        assert!(Slot::claim(page, key(9999)).is_none());
        drop(slots);
        assert!(Slot::claim(page, key(3)).is_some());
    }
}
