//! Segments of this process as devices know them. Invariant: the memory of a segment is given back only after its keys
//! were revoked, and not at all if a device did not confirm that.

use perigee_memory::Segment;
use perigee_rails::{Preference, RailEngine, RegionDescriptor, Registration};
use perigee_schemas::Identity;
use perigee_verbs::Access;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Segments that peers may reach by rails.
#[derive(Debug, Default)]
pub(crate) struct Served {
    entries: Mutex<HashMap<Identity, Entry>>,
    /// Memory that a device may still write.
    kept: Mutex<Vec<Arc<Segment>>>,
}

#[derive(Debug)]
enum Entry {
    Registering,
    Ready {
        registration: Arc<Registration>,
        segment: Arc<Segment>,
    },
}

impl Served {
    fn entries(&self) -> MutexGuard<'_, HashMap<Identity, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a segment beside the calls, since pinning its pages takes long; until then it is reached over TCP.
    pub(crate) fn serve(
        self: &Arc<Self>,
        engine: &RailEngine,
        id: Identity,
        segment: Arc<Segment>,
    ) {
        self.entries().insert(id, Entry::Registering);
        let (served, engine) = (self.clone(), engine.clone());
        let thread = std::thread::Builder::new()
            .name("perigee-pin".to_owned())
            .spawn(move || served.register(&engine, id, segment));
        if let Err(error) = thread {
            tracing::warn!(%error, segment = %id, "No thread to register a segment; it is served over TCP");
            self.entries().remove(&id);
        }
    }

    fn register(&self, engine: &RailEngine, id: Identity, segment: Arc<Segment>) {
        let (address, bytes) = (segment.base() as u64, segment.len() as u64);
        // A device pins all pages.
        if let Err(error) = segment.populate(0, bytes) {
            tracing::warn!(%error, segment = %id, "A segment is served over TCP only");
            self.entries().remove(&id);
            return;
        }
        // SAFETY: the segment stays mapped beside its registration, and until `withdraw` has revoked it.
        let made = unsafe { engine.register(address, bytes, Access::ALL, &Preference::default()) };
        let mut entries = self.entries();
        match (made, entries.remove(&id)) {
            (Ok(registration), Some(_)) => {
                let entry = Entry::Ready {
                    registration,
                    segment,
                };
                entries.insert(id, entry);
            }
            (Ok(registration), None) => {
                drop(entries);
                self.end(&registration, segment);
            }
            (Err(error), _) => {
                tracing::warn!(%error, segment = %id, "A segment is served over TCP only");
            }
        }
    }

    /// Ends the keys of a segment: when this returns, no peer reaches its memory by rails.
    pub(crate) fn withdraw(&self, id: Identity) {
        let found = self.entries().remove(&id);
        if let Some(Entry::Ready {
            registration,
            segment,
        }) = found
        {
            self.end(&registration, segment);
        }
    }

    /// As [`Served::withdraw`], for all.
    pub(crate) fn withdraw_all(&self) {
        let ids: Vec<_> = self.entries().keys().copied().collect();
        ids.into_iter().for_each(|id| self.withdraw(id));
    }

    fn end(&self, registration: &Registration, segment: Arc<Segment>) {
        if let Err(error) = registration.revoke() {
            tracing::warn!(%error, "A device did not let go of a segment; its memory is kept");
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(segment);
        }
    }

    /// What peers are told.
    pub(crate) fn describe(&self, lease: Duration) -> Vec<(Identity, RegionDescriptor)> {
        let ready = |(id, entry): (&Identity, &Entry)| match entry {
            Entry::Registering => None,
            Entry::Ready { registration, .. } => {
                Some((*id, registration.descriptor(id.low(), Some(lease))))
            }
        };
        self.entries().iter().filter_map(ready).collect()
    }

    /// The registration that covers a range of a segment of ours.
    pub(crate) fn find(&self, address: u64, bytes: u64) -> Option<Arc<Registration>> {
        self.entries().values().find_map(|entry| match entry {
            Entry::Ready { registration, .. } if registration.contains(address, bytes) => {
                Some(registration.clone())
            }
            _ => None,
        })
    }
}
