//! A peer's rails and the memory behind them, as its last answer listed them.
//! Invariant: a registration that the peer lists again keeps its keys, so that requests under way
//! see its lease renewed.

use crate::wire::RailsReply;
use perigee_rails::{PeerHandle, RegionDescriptor, RemoteKeys};
use perigee_schemas::Identity;
use perigee_shard::monotonic;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A peer's rails and the memory behind them.
#[derive(Debug)]
pub struct PeerRails {
    peer: PeerHandle,
    /// By address.
    regions: Vec<RemoteRegion>,
    by_id: HashMap<Identity, usize>,
    version: u64,
    life: u64,
    /// Shared by all lists of this run of the peer that are still held.
    family: Arc<()>,
}

/// A segment or a buffer of a peer.
#[derive(Clone, Debug)]
pub struct RemoteRegion {
    /// The segment, or the number of the buffer's registration.
    pub id: Identity,
    /// Keys under the peer's lease.
    pub keys: Arc<RemoteKeys>,
    /// Address of its first byte at the peer.
    pub base: u64,
}

impl PeerRails {
    pub(crate) fn new(
        peer: PeerHandle,
        life: u64,
        reply: &RailsReply,
        before: Option<&Self>,
        asked_at: Duration,
    ) -> Self {
        let region = |(id, descriptor): &(Identity, RegionDescriptor)| {
            let known = before.and_then(|before| before.region(*id));
            let keys = match known.filter(|known| known.keys.is_of(descriptor)) {
                Some(known) => {
                    known.keys.renew(asked_at, descriptor.lease_ms);
                    known.keys.clone()
                }
                None => Arc::new(RemoteKeys::new(descriptor, asked_at).ok()?),
            };
            let base = descriptor.address;
            Some(RemoteRegion { id: *id, keys, base })
        };
        let mut regions: Vec<_> = reply.regions.iter().filter_map(region).collect();
        regions.sort_unstable_by_key(|region| region.base);
        let by_id = regions.iter().enumerate();
        let by_id = by_id.map(|(at, region)| (region.id, at)).collect();
        Self {
            peer,
            regions,
            by_id,
            version: reply.version,
            life,
            family: before.map_or_else(Arc::default, |before| before.family.clone()),
        }
    }

    /// The peer still has this list: all leases run on.
    pub(crate) fn renew(&self, asked_at: Duration, lease_ms: u32) {
        let lease = Some(lease_ms.into());
        let renew = |region: &RemoteRegion| region.keys.renew(asked_at, lease);
        self.regions.iter().for_each(renew);
    }

    /// Whether anything but the table of peers holds this list or an earlier one: a batch is on its
    /// way.
    pub(crate) fn is_in_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || Arc::strong_count(&self.family) > 1
    }

    /// The peer, as rails know it.
    pub fn peer(&self) -> &PeerHandle {
        &self.peer
    }

    /// Random number of the peer's run, as its greeting said it: who has another one is another
    /// process.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Version of the list.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Its pieces of memory by address.
    pub(crate) fn regions(&self) -> &[RemoteRegion] {
        &self.regions
    }

    fn region(&self, id: Identity) -> Option<&RemoteRegion> {
        self.by_id.get(&id).map(|at| &self.regions[*at])
    }

    /// A segment of the peer, while the lease runs.
    pub fn segment(&self, id: Identity) -> Option<&RemoteRegion> {
        self.region(id).filter(|region| region.keys.is_valid(monotonic()))
    }

    /// The keys that cover a range of the peer's memory, while the lease runs.
    pub fn covering(&self, address: u64, bytes: u64) -> Option<&Arc<RemoteKeys>> {
        let after = self.regions.partition_point(|region| region.base <= address);
        let keys = &self.regions.get(after.checked_sub(1)?)?.keys;
        (keys.contains(address, bytes) && keys.is_valid(monotonic())).then_some(keys)
    }
}
