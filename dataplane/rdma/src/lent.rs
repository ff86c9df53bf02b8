//! Memory of this process that peers may reach by rails. Invariant: the memory of a segment or of a
//! disk's stage is given back only after its keys were revoked, and not at all if a device did not
//! confirm that.

use perigee_memory::segment::Exhausted;
use perigee_memory::{HostBuffer, Segment};
use perigee_rails::{Preference, RailEngine, RegionDescriptor, Registration};
use perigee_schemas::Identity;
use perigee_shard::Guard;
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
    /// Memory that a device may still use.
    kept: Mutex<Vec<Guard>>,
}

#[derive(Debug)]
struct List {
    entries: HashMap<Identity, LentMemory>,
    /// Changes with every change of the list; 0 means no version.
    version: u64,
}

#[derive(Debug)]
enum LentMemory {
    /// Its pages are being pinned since this version of the list: another memory may have its name
    /// by the time that is done.
    Registering { since: u64 },
    Ready {
        registration: Arc<Registration>,
        /// Its memory, if that is kept here.
        memory: Option<Guard>,
    },
}

/// What is to be lent.
pub(crate) enum LentSource {
    Segment(Arc<Segment>),
    /// What a disk reads into: peers only read it.
    Stage(Arc<HostBuffer>),
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

    /// Whether the pages of memory are still wanted that are being pinned since that version.
    fn is_waited_for(&self, id: Identity, version: u64) -> bool {
        let entry = self.entries.get(&id);
        matches!(entry, Some(LentMemory::Registering { since }) if *since == version)
    }
}

impl Lent {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends memory whose registration its owner revokes.
    pub(crate) fn lend(&self, id: Identity, registration: Arc<Registration>) {
        let entry = LentMemory::Ready { registration, memory: None };
        self.list().insert(id, entry);
    }

    /// The list no longer has it.
    pub(crate) fn hide(&self, id: Identity) {
        self.list().remove(id);
    }

    /// Registers memory beside the calls, since pinning its pages takes long; until then it is
    /// reached over TCP.
    pub(crate) fn serve(self: &Arc<Self>, engine: &RailEngine, id: Identity, source: LentSource) {
        let since = {
            let mut list = self.list();
            let since = list.version + 1;
            let before = list.insert(id, LentMemory::Registering { since });
            // What stood there would go without an end of its keys.
            assert!(before.is_none(), "memory is lent once");
            since
        };
        let (lent, engine) = (self.clone(), engine.clone());
        let thread = std::thread::Builder::new()
            .name("perigee-pin".to_owned())
            .spawn(move || lent.register(&engine, (id, since), source));
        if let Err(error) = thread {
            tracing::warn!(%error, segment = %id, "No thread to register memory; it is served over TCP");
            self.give_up(id, since);
        }
    }

    fn register(&self, engine: &RailEngine, (id, since): (Identity, u64), source: LentSource) {
        let ((address, bytes), access) = (source.range(), source.access());
        // A device pins all pages.
        if let Err(error) = source.populate() {
            tracing::warn!(%error, segment = %id, "Memory is served over TCP only");
            return self.give_up(id, since);
        }
        // SAFETY: the memory is kept beside its registration, and until `withdraw` has revoked it.
        let made = unsafe { engine.register(address, bytes, access, &Preference::default()) };
        let memory = source.into_memory();
        match made {
            Ok(registration) => {
                debug_assert!(registration.contains(address, bytes), "peers reach all of it");
                let mut list = self.list();
                if list.is_waited_for(id, since) {
                    list.insert(id, LentMemory::Ready { registration, memory: Some(memory) });
                } else {
                    // It was withdrawn while its pages were pinned.
                    drop(list);
                    self.end(&registration, memory);
                }
            }
            Err(error) => {
                tracing::warn!(%error, segment = %id, "Memory is served over TCP only");
                self.give_up(id, since);
            }
        }
    }

    /// Memory that could not be registered is not waited for.
    fn give_up(&self, id: Identity, since: u64) {
        let mut list = self.list();
        if list.is_waited_for(id, since) {
            list.remove(id);
        }
    }

    /// Ends the keys of a segment: when this returns, no peer reaches its memory by rails.
    pub(crate) fn withdraw(&self, id: Identity) {
        let found = self.list().remove(id);
        if let Some(LentMemory::Ready { registration, memory: Some(memory) }) = found {
            self.end(&registration, memory);
        }
    }

    /// As [`Lent::withdraw`], for all.
    pub(crate) fn withdraw_all(&self) {
        let ids: Vec<_> = self.list().entries.keys().copied().collect();
        ids.into_iter().for_each(|id| self.withdraw(id));
    }

    fn end(&self, registration: &Registration, memory: Guard) {
        let revoked = registration.revoke();
        // Also if a device does not confirm it, nothing new begins with these keys.
        debug_assert!(registration.is_revoked());
        if let Err(error) = revoked {
            tracing::warn!(%error, "A device still holds memory that was lent; it is kept");
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(memory);
        }
    }

    /// The list for peers, unless they have this version already.
    pub(crate) fn describe(&self, known: u64, lease: Duration) -> LentList {
        let list = self.list();
        let ready = |(id, entry): (&Identity, &LentMemory)| match entry {
            LentMemory::Registering { .. } => None,
            LentMemory::Ready { registration, .. } => {
                Some((*id, registration.descriptor(id.low(), Some(lease))))
            }
        };
        match list.version == known {
            true => (Vec::new(), known),
            false => (list.entries.iter().filter_map(ready).collect(), list.version),
        }
    }

    /// The registration that covers a range of what is lent.
    pub(crate) fn find(&self, address: u64, bytes: u64) -> Option<Arc<Registration>> {
        self.list().entries.values().find_map(|entry| match entry {
            LentMemory::Ready { registration, .. } if registration.contains(address, bytes) => {
                Some(registration.clone())
            }
            _ => None,
        })
    }
}

impl LentSource {
    fn range(&self) -> (u64, u64) {
        let (base, bytes) = match self {
            LentSource::Segment(segment) => (segment.base(), segment.len()),
            LentSource::Stage(memory) => (memory.base(), memory.len()),
        };
        (base as u64, bytes as u64)
    }

    fn access(&self) -> RegionAccess {
        match self {
            LentSource::Segment(_) => RegionAccess::ALL,
            LentSource::Stage(_) => RegionAccess { remote_write: false, ..RegionAccess::ALL },
        }
    }

    /// Makes the pages of a segment; those of other memory are made as it is registered.
    fn populate(&self) -> Result<(), Exhausted> {
        match self {
            LentSource::Segment(segment) => segment.populate(0, segment.len() as u64),
            LentSource::Stage(_) => Ok(()),
        }
    }

    fn into_memory(self) -> Guard {
        match self {
            LentSource::Segment(segment) => segment,
            LentSource::Stage(memory) => memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_rails::{EndpointOffer, ExchangeDone, OfferExchange, RailOptions};
    use perigee_shard::monotonic;
    use perigee_verbs::software::{Clock, DevicePlan, SoftwareNetwork};

    const LONG: Duration = Duration::from_secs(60);
    const LEASE: Duration = Duration::from_secs(10);

    struct NoPeers;

    impl OfferExchange for NoPeers {
        fn exchange(&self, _: &str, _: EndpointOffer, done: ExchangeDone) {
            done(Err("there are none".to_owned()));
        }
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        let end = monotonic() + LONG;
        while !is_so() {
            assert!(monotonic() < end, "it does not come");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_stage_is_listed_once_it_is_registered_and_not_at_all_if_a_device_refuses() {
        let network = SoftwareNetwork::new(Clock::Real).unwrap();
        let fabric = network.host("owner", &[DevicePlan::new("sw0")]).unwrap();
        let exchange: Arc<dyn OfferExchange> = Arc::new(NoPeers);
        let options = RailOptions::named("owner");
        let engine = RailEngine::start(fabric.as_ref(), &options, &exchange).unwrap();
        let lent = Arc::<Lent>::default();
        let memory = Arc::new(HostBuffer::allocate(8192).unwrap());
        let stage = || LentSource::Stage(memory.clone());
        let (address, bytes) = stage().range();
        let listed = || lent.describe(0, LEASE).0;
        lent.serve(&engine, Identity(1), stage());
        until(|| listed().len() == 1);
        assert_eq!((listed()[0].1.address, listed()[0].1.bytes), (address, bytes));
        assert!(lent.find(address + 100, 100).is_some());
        assert!(lent.find(address, bytes + 1).is_none());
        lent.withdraw(Identity(1));
        assert!(listed().is_empty() && lent.find(address, bytes).is_none());
        let faults = network.faults("owner", "sw0").unwrap();
        faults.refuse_registrations(1);
        lent.serve(&engine, Identity(1), stage());
        until(|| lent.list().entries.is_empty());
        lent.serve(&engine, Identity(1), stage());
        until(|| listed().len() == 1);
        lent.withdraw_all();
        engine.close();
        assert_eq!(Arc::strong_count(&memory), 1, "nothing keeps it");
    }
}
