//! Memory of this process that peers may reach by rails. Invariant: the memory of a segment is
//! given back only after its keys were revoked, and not at all if a device did not confirm that.

use perigee_memory::Segment;
use perigee_rails::{Preference, RailEngine, RegionDescriptor, Registration};
use perigee_schemas::Identity;
use perigee_verbs::RegionAccess;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What peers get: descriptors by identity, and the version of the list.
pub(crate) type LentList = (Vec<(Identity, RegionDescriptor)>, u64);

/// Memory that peers may reach by rails.
#[derive(Debug)]
pub(crate) struct Lent {
    list: Mutex<List>,
    /// Memory that a device may still write.
    kept: Mutex<Vec<Arc<Segment>>>,
}

#[derive(Debug)]
struct List {
    entries: HashMap<Identity, LentMemory>,
    /// Changes with every change of the list; 0 means no version.
    version: u64,
}

#[derive(Debug)]
enum LentMemory {
    /// A segment whose pages are being pinned.
    Registering,
    Ready {
        registration: Arc<Registration>,
        /// The segment that it is, if its memory is kept here.
        segment: Option<Arc<Segment>>,
    },
}

impl Default for Lent {
    fn default() -> Self {
        Self {
            list: Mutex::new(List { entries: HashMap::new(), version: 1 }),
            kept: Mutex::default(),
        }
    }
}

impl List {
    fn insert(&mut self, id: Identity, entry: LentMemory) -> Option<LentMemory> {
        self.version += 1;
        self.entries.insert(id, entry)
    }

    fn remove(&mut self, id: Identity) -> Option<LentMemory> {
        self.version += 1;
        self.entries.remove(&id)
    }
}

impl Lent {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends memory whose registration its owner revokes.
    pub(crate) fn lend(&self, id: Identity, registration: Arc<Registration>) {
        let entry = LentMemory::Ready { registration, segment: None };
        self.list().insert(id, entry);
    }

    /// The list no longer has it.
    pub(crate) fn hide(&self, id: Identity) {
        self.list().remove(id);
    }

    /// Registers a segment beside the calls, since pinning its pages takes long; until then it is
    /// reached over TCP.
    pub(crate) fn serve(
        self: &Arc<Self>,
        engine: &RailEngine,
        id: Identity,
        segment: Arc<Segment>,
    ) {
        let before = self.list().insert(id, LentMemory::Registering);
        // What stood there would go without an end of its keys.
        assert!(before.is_none(), "a segment is lent once");
        let (lent, engine) = (self.clone(), engine.clone());
        let thread = std::thread::Builder::new()
            .name("perigee-pin".to_owned())
            .spawn(move || lent.register(&engine, id, segment));
        if let Err(error) = thread {
            tracing::warn!(%error, segment = %id, "No thread to register a segment; it is served over TCP");
            self.hide(id);
        }
    }

    fn register(&self, engine: &RailEngine, id: Identity, segment: Arc<Segment>) {
        let (address, bytes) = (segment.base() as u64, segment.len() as u64);
        // A device pins all pages.
        if let Err(error) = segment.populate(0, bytes) {
            tracing::warn!(%error, segment = %id, "A segment is served over TCP only");
            return self.hide(id);
        }
        // SAFETY: the segment stays mapped beside its registration, and until `withdraw` has
        // revoked it.
        let made =
            unsafe { engine.register(address, bytes, RegionAccess::ALL, &Preference::default()) };
        let mut list = self.list();
        match (made, list.remove(id)) {
            (Ok(registration), Some(before)) => {
                debug_assert!(matches!(before, LentMemory::Registering), "registered once");
                debug_assert!(registration.contains(address, bytes), "peers reach all of it");
                let entry = LentMemory::Ready { registration, segment: Some(segment) };
                list.insert(id, entry);
            }
            (Ok(registration), None) => {
                // It was withdrawn while its pages were pinned.
                drop(list);
                self.end(&registration, segment);
            }
            (Err(error), _) => {
                tracing::warn!(%error, segment = %id, "A segment is served over TCP only");
            }
        }
    }

    /// Ends the keys of a segment: when this returns, no peer reaches its memory by rails.
    pub(crate) fn withdraw(&self, id: Identity) {
        let found = self.list().remove(id);
        if let Some(LentMemory::Ready { registration, segment: Some(segment) }) = found {
            self.end(&registration, segment);
        }
    }

    /// As [`Lent::withdraw`], for all.
    pub(crate) fn withdraw_all(&self) {
        let ids: Vec<_> = self.list().entries.keys().copied().collect();
        ids.into_iter().for_each(|id| self.withdraw(id));
    }

    fn end(&self, registration: &Registration, segment: Arc<Segment>) {
        let revoked = registration.revoke();
        // Also if a device does not confirm it, nothing new begins with these keys.
        debug_assert!(registration.is_revoked());
        if let Err(error) = revoked {
            tracing::warn!(%error, "A device still holds a segment; its memory is kept");
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(segment);
        }
    }

    /// The list for peers, unless they have this version already.
    pub(crate) fn describe(&self, known: u64, lease: Duration) -> LentList {
        let list = self.list();
        let ready = |(id, entry): (&Identity, &LentMemory)| match entry {
            LentMemory::Registering => None,
            LentMemory::Ready { registration, .. } => {
                Some((*id, registration.descriptor(id.low(), Some(lease))))
            }
        };
        match list.version == known {
            true => (Vec::new(), known),
            false => (list.entries.iter().filter_map(ready).collect(), list.version),
        }
    }

    /// The registration that covers a range of a segment of ours.
    pub(crate) fn find(&self, address: u64, bytes: u64) -> Option<Arc<Registration>> {
        self.list().entries.values().find_map(|entry| match entry {
            LentMemory::Ready { registration, .. } if registration.contains(address, bytes) => {
                Some(registration.clone())
            }
            _ => None,
        })
    }
}
