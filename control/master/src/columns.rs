//! Results of batch calls as columns that the caller owns and reuses: entry i answers key i.
//! Invariant: `status`, `checksum`, `payload_bytes`, `lease` and `location_count` have one entry
//! per key, `locations` holds the entries of key 0, then those of key 1 and so on.

use perigee_schemas::Status;

/// State of a replica, with Mooncake's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ReplicaState {
    /// Space is allocated, bytes are being written.
    Processing = 2,
    /// Bytes can be read.
    Complete = 3,
}

/// Where one replica lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaLocation {
    /// Number of the segment, as given by the registry.
    pub segment: u32,
    /// Whether it can be read.
    pub state: ReplicaState,
    /// Offset of the payload from the start of the segment, in bytes.
    pub offset: u64,
    /// Length of the payload in bytes, without the footer.
    pub payload_bytes: u64,
    /// Number of the allocation; no other one of this master's life has it, and one of another life
    /// only by a chance of one in millions.
    pub generation: u64,
    /// The part of its object that lies here, from 0; `None` for all of it.
    pub part: Option<u8>,
    /// CRC-32C of that part; 0 for a whole object, and while it is being written.
    pub part_checksum: u32,
}

/// Answer to `get_replicas` and `peek`.
#[derive(Debug, Default)]
pub struct ReplicaColumns {
    /// 0 or a negative status code per key.
    pub status: Vec<i32>,
    /// CRC-32C of the payload as the writer gave it; 0 on failure.
    pub checksum: Vec<u32>,
    /// Payload length in bytes; 0 on failure.
    pub payload_bytes: Vec<u64>,
    /// Number of entries of `locations` that belong to the key.
    pub location_count: Vec<u8>,
    /// Name of the read lease per key, to give it back with the generation of the key's first
    /// location; 0 for none.
    pub lease: Vec<u64>,
    /// The replicas of all keys in order.
    pub locations: Vec<ReplicaLocation>,
}

impl ReplicaColumns {
    /// Empties all columns and keeps their memory.
    pub fn clear(&mut self) {
        self.status.clear();
        self.checksum.clear();
        self.payload_bytes.clear();
        self.location_count.clear();
        self.lease.clear();
        self.locations.clear();
    }

    /// Whether each column has its entries for so many keys.
    pub(crate) fn are_whole(&self, keys: usize) -> bool {
        let located: usize = self.location_count.iter().map(|count| *count as usize).sum();
        let columns = [
            self.status.len(),
            self.checksum.len(),
            self.payload_bytes.len(),
            self.location_count.len(),
            self.lease.len(),
        ];
        columns.iter().all(|entries| *entries == keys) && located == self.locations.len()
    }

    pub(crate) fn push_failure(&mut self, status: Status) {
        self.lease.push(0);
        self.status.push(status.code());
        self.checksum.push(0);
        self.payload_bytes.push(0);
        self.location_count.push(0);
    }

    /// Closes the entry of a key whose locations are the ones from `first_location` on.
    pub(crate) fn push_found(&mut self, checksum: u32, payload_bytes: u64, first_location: usize) {
        let found = &self.locations[first_location..];
        debug_assert!((1..=usize::from(u8::MAX)).contains(&found.len()));
        self.lease.push(0);
        self.status.push(Status::Ok.code());
        self.checksum.push(checksum);
        self.payload_bytes.push(payload_bytes);
        self.location_count.push(found.len() as u8);
    }

    /// Hides the objects that lie in parts from who cannot read such: their keys are not found.
    pub fn hide_parts(&mut self) {
        if self.locations.iter().all(|location| location.part.is_none()) {
            return;
        }
        let mut next = 0;
        for at in 0..self.status.len() {
            let count = usize::from(self.location_count[at]);
            let found = self.locations[next..next + count].first();
            if found.is_some_and(|location| location.part.is_some()) {
                self.locations.drain(next..next + count);
                self.status[at] = Status::ObjectNotFound.code();
                self.checksum[at] = 0;
                self.payload_bytes[at] = 0;
                self.location_count[at] = 0;
                self.lease[at] = 0;
            } else {
                next += count;
            }
        }
    }
}

/// Answer to `put_start`.
#[derive(Debug, Default)]
pub struct PlacementColumns {
    /// 0 or a negative status code per key.
    pub status: Vec<i32>,
    /// Number of entries of `locations` that belong to the key.
    pub location_count: Vec<u8>,
    /// The new replicas of all keys in order.
    pub locations: Vec<ReplicaLocation>,
}

impl PlacementColumns {
    /// Empties all columns and keeps their memory.
    pub fn clear(&mut self) {
        self.status.clear();
        self.location_count.clear();
        self.locations.clear();
    }

    /// Closes the entry of a key whose locations are the ones from `first_location` on.
    pub(crate) fn push(&mut self, status: Status, first_location: usize) {
        let count = self.locations.len() - first_location;
        debug_assert!(count <= usize::from(u8::MAX), "replicas are bounded");
        debug_assert_eq!(status == Status::Ok, count > 0, "a put has its places");
        self.status.push(status.code());
        self.location_count.push(count as u8);
    }
}
