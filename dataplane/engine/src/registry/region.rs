//! One registered buffer and the rights to use it.
//! Invariant: while a [`RegionUse`] restarts, `unregister` of its buffer does not return success.

use super::location::MemoryLocation;
use perigee_memory::Segment;
use perigee_memory::reachable::{KnownMappings, Use};
use perigee_rails::Registration;
use perigee_schemas::Identity;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The generation of the next buffer. An address may be registered again, a generation is not given
/// out twice.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// A registered buffer.
#[derive(Debug)]
pub(crate) struct RegisteredRegion {
    address: u64,
    bytes: u64,
    location: MemoryLocation,
    generation: u64,
    uses: AtomicUsize,
    closed: AtomicBool,
    unused: Mutex<()>,
    changed: Condvar,
    registration: OnceLock<Arc<Registration>>,
    on_device: bool,
    /// Whether peers have no part in it.
    private: bool,
    /// The segment that it is the whole of, if it can be handed to peers on this host.
    segment: Option<Arc<Segment>>,
}

impl RegisteredRegion {
    pub(crate) fn new(address: u64, bytes: u64, location: MemoryLocation) -> Self {
        Self {
            address,
            bytes,
            location,
            generation: GENERATIONS.fetch_add(1, Ordering::Relaxed),
            uses: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            unused: Mutex::default(),
            changed: Condvar::new(),
            registration: OnceLock::new(),
            on_device: false,
            private: false,
            segment: None,
        }
    }

    /// A buffer that is the whole of a segment.
    pub(crate) fn of_segment(segment: Arc<Segment>, location: MemoryLocation) -> Self {
        let (address, bytes) = (segment.base() as u64, segment.len() as u64);
        Self { segment: Some(segment), ..Self::new(address, bytes, location) }
    }

    /// The segment that it is the whole of.
    pub(crate) fn segment(&self) -> Option<&Arc<Segment>> {
        self.segment.as_ref()
    }

    /// Whether the CPU may touch a range of it now: its owner may have changed the rights since it
    /// was registered, or unmapped it. `known` is of this call.
    pub(crate) fn is_touchable(
        &self,
        (address, bytes): (u64, u64),
        wanted: Use,
        known: &mut KnownMappings,
    ) -> bool {
        if self.on_device {
            return false;
        }
        if self.segment.is_some() {
            return true;
        }
        let region = self.address as usize..self.end() as usize;
        known.allow_in(region, address as usize, bytes as usize, wanted)
    }

    /// Whether peers may use a range of it so.
    pub(crate) fn allows(&self, address: u64, bytes: u64, wanted: Use) -> bool {
        let known = &mut KnownMappings::default();
        self.on_device || self.is_touchable((address, bytes), wanted, known)
    }

    /// The same buffer, whose bytes must be staged if `on_device`.
    pub(crate) fn on_device(self, on_device: bool) -> Self {
        Self { on_device, ..self }
    }

    /// The same buffer, out of reach of peers if `private`.
    pub(crate) fn private(self, private: bool) -> Self {
        Self { private, ..self }
    }

    /// Whether peers neither know nor reach it.
    pub(crate) fn is_private(&self) -> bool {
        self.private
    }

    /// Whether the CPU and sockets cannot touch it.
    pub(crate) fn is_on_device(&self) -> bool {
        self.on_device
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One past the last byte; cannot overflow, because a table only takes buffers whose end
    /// exists.
    pub(crate) fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    /// What peers' leases name it by.
    pub(crate) fn lease_id(&self) -> Identity {
        Identity::from_halves(0, self.generation)
    }

    pub(crate) fn location(&self) -> MemoryLocation {
        self.location
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// The right to use the buffer, unless it is being taken out.
    pub(crate) fn acquire(self: &Arc<Self>) -> Option<RegionUse> {
        self.uses.fetch_add(1, Ordering::SeqCst);
        let used = RegionUse(self.clone());
        // Increment before checking `closed`: either `close()` sees this use, or we see the close.
        (!self.is_closed()).then_some(used)
    }

    /// What the rails know it by, if they do.
    pub(crate) fn registration(&self) -> Option<&Arc<Registration>> {
        self.registration.get()
    }

    /// The rails know it from now on.
    pub(crate) fn set_registration(&self, registration: Arc<Registration>) {
        let is_first = self.registration.set(registration).is_ok();
        debug_assert!(is_first, "the rails know a buffer by one registration");
    }

    /// From now on no use may begin.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Waits until no use is left; false if one is left after `limit`.
    pub(crate) fn wait_unused(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut guard = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        while self.uses.load(Ordering::SeqCst) > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(guard, left);
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// The right to use one registered buffer.
#[derive(Debug)]
pub(crate) struct RegionUse(Arc<RegisteredRegion>);

impl RegionUse {
    /// The buffer.
    pub(crate) fn region(&self) -> &Arc<RegisteredRegion> {
        &self.0
    }
}

impl Drop for RegionUse {
    fn drop(&mut self) {
        let uses = self.0.uses.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(uses > 0, "each use ends once");
        if uses == 1 && self.0.is_closed() {
            // The lock makes sure that a waiter is either before its look at the count or asleep.
            drop(self.0.unused.lock().unwrap_or_else(PoisonError::into_inner));
            self.0.changed.notify_all();
        }
    }
}
