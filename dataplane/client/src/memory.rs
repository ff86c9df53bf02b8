//! Memory for many calls, of this crate or taken over. Invariant: it stays mapped while a slice or
//! a registration of it exists, and no byte is lent twice at a time.
#![expect(unsafe_code, reason = "it gives access to memory by address")]

use perigee_memory::Segment;
use perigee_memory::segment::{SegmentError, SegmentOptions};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory for many calls. Clones are the same memory.
///
/// Parts of it are lent to calls; a part is free again when its
/// [`MemorySlice`](crate::MemorySlice) is dropped. It is registered with
/// [`ObjectStore::register`](crate::ObjectStore::register),
/// [`PeerEngine::register`](crate::PeerEngine::register) or
/// [`PeerEngine::expose`](crate::PeerEngine::expose).
#[derive(Clone)]
pub struct CacheMemory(Arc<MemoryState>);

struct MemoryState {
    owner: MemoryOwner,
    address: usize,
    bytes: usize,
    /// First byte and end of each part that is lent.
    lent: Mutex<BTreeMap<usize, usize>>,
}

/// What keeps memory mapped.
enum MemoryOwner {
    /// Zeroed when it was made, of this host.
    Segment(Arc<Segment>),
    /// The caller's, on this host or on an accelerator.
    Caller { _keeper: Box<dyn Any + Send + Sync> },
}

impl CacheMemory {
    /// Makes zeroed, page-aligned memory of this host. Processes of this host that it is exposed to
    /// copy in it directly.
    ///
    /// # Errors
    /// The container or the host does not have as much.
    pub fn allocate(bytes: usize) -> Result<Self, SegmentError> {
        let segment = Segment::create(bytes as u64, &SegmentOptions::default())?;
        let (address, bytes) = (segment.base().expose_provenance(), segment.len());
        Ok(Self::new(MemoryOwner::Segment(Arc::new(segment)), address, bytes))
    }

    /// Takes over memory that exists: of this host, or of an accelerator whose driver knows the
    /// address. `keeper` is dropped with the last use of the memory.
    ///
    /// # Safety
    /// The memory stays mapped until `keeper` is dropped, and no other code reads or writes a part
    /// of it while that is lent or exposed.
    pub unsafe fn adopt(
        address: *mut u8,
        bytes: usize,
        keeper: impl Send + Sync + 'static,
    ) -> Self {
        let owner = MemoryOwner::Caller { _keeper: Box::new(keeper) };
        Self::new(owner, address.expose_provenance(), bytes)
    }

    fn new(owner: MemoryOwner, address: usize, bytes: usize) -> Self {
        Self(Arc::new(MemoryState { owner, address, bytes, lent: Mutex::default() }))
    }

    /// Address of the first byte, as peers name it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.0.address as u64
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// Notes that a part is lent; the part that is already, if they overlap.
    pub(crate) fn note_lent(&self, range: &Range<usize>) -> Result<(), Range<usize>> {
        let mut lent = self.lent();
        // Parts do not overlap, so the last one that begins before the end reaches furthest.
        if let Some((start, end)) = lent.range(..range.end).next_back()
            && *end > range.start
        {
            return Err(*start..*end);
        }
        lent.insert(range.start, range.end);
        Ok(())
    }

    /// Takes a part back.
    pub(crate) fn take_back(&self, start: usize) {
        let was_lent = self.lent().remove(&start);
        debug_assert!(was_lent.is_some(), "a slice is of a part that is lent");
    }

    /// The segment it is, if it is not the caller's.
    pub(crate) fn segment(&self) -> Option<&Arc<Segment>> {
        match &self.0.owner {
            MemoryOwner::Segment(segment) => Some(segment),
            MemoryOwner::Caller { .. } => None,
        }
    }

    fn lent(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.0.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CacheMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("CacheMemory");
        shown.field("address", &self.0.address).field("bytes", &self.0.bytes);
        shown.finish_non_exhaustive()
    }
}
