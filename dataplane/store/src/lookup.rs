//! Keys that were looked up: sizes, places and checksums, readable while their lease runs.
//! Invariant: a lease is given back when its lookup is dropped, unless something may still be
//! reading under it.

use crate::addresses::SegmentAddresses;
use crate::parts::PartPlaces;
use perigee_rpc::{Lease, LocatedBatch, MasterClient};
use perigee_schemas::Status;
use perigee_transfer::ReplicaAddress;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Lookups of this process take turns, so that the reads of a hot key go to all of its replicas.
static TURNS: AtomicUsize = AtomicUsize::new(0);

/// The answer to a lookup of several keys. Holding it is enough to read; bytes that were reused
/// since are noticed. Dropping it gives the leases back.
#[derive(Debug, Default)]
pub struct Lookup {
    pub(crate) objects: Vec<Result<FoundObject, Status>>,
}

/// One object that can be read.
#[derive(Debug)]
pub(crate) struct FoundObject {
    pub(crate) key: String,
    pub(crate) payload_bytes: u64,
    pub(crate) checksum: u32,
    pub(crate) places: Vec<ReplicaAddress>,
    /// Which places are of which part, if the object lies in several.
    pub(crate) parts: Option<Box<PartPlaces>>,
    /// CRC-32C of the part at each place; empty if the object lies in one piece.
    pub(crate) part_checksums: Vec<u32>,
    /// Which of several equally near places is read first.
    pub(crate) turn: usize,
    pub(crate) lease: Option<ReadLease>,
}

/// A lease under which bytes are read. It goes back to the master when it is dropped.
#[derive(Debug)]
pub struct ReadLease {
    master: Arc<MasterClient>,
    lease: Lease,
    is_left: AtomicBool,
}

impl ReadLease {
    /// Lets it end by time: a transfer under it did not end well, so something may still be
    /// reading.
    pub(crate) fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }
}

impl Drop for ReadLease {
    fn drop(&mut self) {
        if !self.is_left.load(Ordering::Relaxed) {
            self.master.give_back(self.lease);
        }
    }
}

impl FoundObject {
    /// CRC-32C of what lies at a place: all of the object, or a part of it.
    pub(crate) fn checksum_at(&self, place: usize) -> u32 {
        let parts = self.part_checksums.len();
        debug_assert!(parts == 0 || parts == self.places.len(), "one checksum per place, or none");
        debug_assert_eq!(parts > 0, self.parts.is_some(), "parts have checksums of their own");
        self.part_checksums.get(place).copied().unwrap_or(self.checksum)
    }

    /// A transfer of this object has failed.
    pub(crate) fn leave_lease(&self) {
        self.lease.iter().for_each(ReadLease::leave);
    }
}

impl Lookup {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether no key was asked for.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Payload bytes of a key, or why it cannot be read.
    ///
    /// # Errors
    /// The key is unknown or not complete, or the master did not answer.
    pub fn object(&self, index: usize) -> Result<u64, Status> {
        self.found(index).map(|found| found.payload_bytes)
    }

    /// Takes the lease on a key out, to hold it for longer than the lookup.
    pub fn take_lease(&mut self, index: usize) -> Option<ReadLease> {
        let found = self.objects.get_mut(index)?.as_mut().ok()?;
        found.lease.take()
    }

    pub(crate) fn found(&self, index: usize) -> Result<&FoundObject, Status> {
        match self.objects.get(index) {
            Some(Ok(found)) => Ok(found),
            Some(Err(status)) => Err(*status),
            None => Err(Status::InvalidParams),
        }
    }

    /// Every key with the same verdict.
    pub(crate) fn failed(keys: usize, status: Status) -> Self {
        let mut lookup = Self::default();
        lookup.append_failure(keys, status);
        lookup
    }

    /// Appends the master's answer about `keys`.
    pub(crate) fn append<S: AsRef<str>>(
        &mut self,
        keys: &[S],
        located: &LocatedBatch,
        addresses: &SegmentAddresses,
        master: &Arc<MasterClient>,
    ) {
        debug_assert_eq!(located.places.status.len(), keys.len(), "one answer per key");
        debug_assert_eq!(located.leases.len(), keys.len(), "one lease or none per key");
        let segments = addresses.of(&located.places.segments);
        for (index, key) in keys.iter().enumerate() {
            let status = located.places.status[index];
            let payload_bytes = located.payload_bytes[index];
            let parts = || PartPlaces::of(located.places.locations_of(index), payload_bytes);
            self.objects.push(status.ok().and_then(|()| parts()).map(|parts| {
                FoundObject {
                    key: key.as_ref().to_owned(),
                    payload_bytes,
                    part_checksums: match parts {
                        Some(_) => located.part_checksums_of(index).to_vec(),
                        None => Vec::new(),
                    },
                    parts,
                    checksum: located.checksum[index],
                    turn: match located.places.locations_of(index).len() {
                        0 | 1 => 0,
                        _ => TURNS.fetch_add(1, Ordering::Relaxed),
                    },
                    lease: located.leases[index].map(|lease| ReadLease {
                        master: master.clone(),
                        lease,
                        is_left: AtomicBool::new(false),
                    }),
                    places: located
                        .places
                        .locations_of(index)
                        .iter()
                        .map(|location| ReplicaAddress {
                            segment: segments[location.segment as usize].clone(),
                            offset: location.offset,
                            payload_bytes: location.payload_bytes,
                            generation: location.generation,
                        })
                        .collect(),
                }
            }));
        }
    }

    /// Appends the keys of another lookup.
    pub(crate) fn extend(&mut self, other: Self) {
        self.objects.extend(other.objects);
    }

    /// Places of all keys that can be read.
    pub(crate) fn places(&self) -> impl Iterator<Item = &ReplicaAddress> {
        let found = self.objects.iter().flatten();
        found.flat_map(|found| &found.places)
    }

    pub(crate) fn append_failure(&mut self, keys: usize, status: Status) {
        self.objects.extend((0..keys).map(|_| Err(status)));
    }
}
