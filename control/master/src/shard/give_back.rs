//! Read leases that end before their time, because their readers have finished.
//! Invariant: a lease ends early only when every reader that it was granted to has given it back.

use crate::parking::ReadLease;

use super::Shard;

/// A lease that a reader gives back: its name in the answer to the lookup, and the generation of the first location there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenBack {
    /// Name of the lease.
    pub lease: u64,
    /// Generation of the first location.
    pub generation: u64,
}

impl GivenBack {
    /// The shard that granted the lease, if the name is one.
    pub fn shard(&self) -> Option<usize> {
        (self.lease >> 32)
            .checked_sub(1)
            .map(|index| index as usize)
    }

    fn object(&self) -> u32 {
        self.lease as u32
    }
}

impl Shard {
    /// Name of a lease on an object without a group.
    pub(super) fn lease_name(&self, object: u32) -> u64 {
        (self.settings.index as u64 + 1) << 32 | u64::from(object)
    }

    /// Takes leases back, each from one reader that will not read under it any more. Bytes that were replaced or removed
    /// meanwhile are free when the last reader has. Unknown leases are ignored.
    pub fn give_back(&mut self, now_ms: u64, leases: &[GivenBack]) {
        self.begin(now_ms);
        let index = self.settings.index;
        for lease in leases.iter().filter(|lease| lease.shard() == Some(index)) {
            if self.has_replica(lease.object(), lease.generation) {
                self.end_read(lease.object());
            } else {
                for parked in self.parking.give_back(lease.generation) {
                    self.free_extent(parked.segment, parked.extent);
                }
            }
        }
    }

    fn has_replica(&self, object: u32, generation: u64) -> bool {
        let Some(record) = self.objects.get(object) else {
            return false;
        };
        self.chain(record.first)
            .any(|id| self.replicas[id].generation == generation)
    }

    /// One reader of an object less. After the last one it counts as touched, so that it goes no sooner than if its lease
    /// had run out.
    fn end_read(&mut self, object: u32) {
        let (clock, now_ms) = (self.clock + 1, self.now_ms);
        let record = &mut self.objects[object];
        if record.readers == 0 || record.readers == u16::MAX {
            return;
        }
        record.readers -= 1;
        if record.readers > 0 || record.read_end_ms <= now_ms {
            return;
        }
        record.read_end_ms = 0;
        record.stamp = clock;
        self.clock = clock;
        let list = self.list_of(object);
        self.relink(object, list);
    }

    /// The running read lease on an object's replicas.
    pub(super) fn read_lease(&self, object: u32) -> ReadLease {
        let record = &self.objects[object];
        ReadLease {
            end_ms: self.groups.touched(record).read_end_ms,
            readers: record.readers,
        }
    }
}
