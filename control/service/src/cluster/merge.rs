//! Putting the columns of several shards back into the order of the request.

use perigee_master::{PlacementColumns, ReplicaColumns, ReplicaLocation};
use perigee_schemas::Status;

/// Status, checksum, payload bytes, locations and lease of a key whose shard is gone.
const LOST_KEY: (i32, u32, u64, u8, u64) = (Status::InternalError.code(), 0, 0, 0, 0);

/// Columns that can be split by key and joined again.
pub(crate) trait Columns: Default + Send + 'static {
    /// Takes over entry `from` of `part` as the next entry; `None` if the shard that owns the key
    /// is gone.
    fn push(&mut self, part: Option<(&Self, usize)>);

    /// Number of entries: one per key.
    fn entries(&self) -> usize;

    /// Makes it ready to be taken over entry by entry.
    fn seal(&mut self) {}
}

/// One code per key.
#[derive(Debug, Default)]
pub(crate) struct StatusCodes(pub(crate) Vec<i32>);

/// Columns whose keys have any number of locations each, and where those of each key begin.
#[derive(Debug, Default)]
pub(crate) struct MergedColumns<C> {
    pub(crate) columns: C,
    starts: Vec<usize>,
}

/// Looked-up replicas.
pub(crate) type Replicas = MergedColumns<ReplicaColumns>;

/// Started puts.
pub(crate) type Placements = MergedColumns<PlacementColumns>;

/// Columns with locations.
pub(crate) trait HasLocations: Default + Send + 'static {
    /// Takes over everything but the locations of entry `from` of `part`; `None` if the shard that
    /// owns the key is gone.
    fn push_key(&mut self, part: Option<(&Self, usize)>);

    /// Number of locations of each key.
    fn counts(&self) -> &[u8];

    /// Locations of all keys in order.
    fn locations(&self) -> &[ReplicaLocation];

    /// The same, to append to.
    fn locations_mut(&mut self) -> &mut Vec<ReplicaLocation>;
}

impl Placements {
    /// Replaces the entries at some positions by those of `newer`, which has one for each.
    pub(crate) fn replaced(mut self, positions: &[usize], mut newer: Self) -> Self {
        self.seal();
        newer.seal();
        let mut whole = Self::default();
        let mut next = 0;
        for position in 0..self.columns.status.len() {
            if positions.get(next) == Some(&position) {
                whole.push(Some((&newer, next)));
                next += 1;
            } else {
                whole.push(Some((&self, position)));
            }
        }
        debug_assert_eq!(next, positions.len(), "each position was replaced");
        debug_assert_eq!(next, newer.columns.status.len(), "each newer entry has its position");
        whole
    }

    /// Positions of the keys for which there was no space.
    pub(crate) fn short(&self) -> Vec<usize> {
        self.refused(Status::NoAvailableHandle)
    }

    /// Positions of the keys for which the quotas of their tenants had no room.
    pub(crate) fn over_quota(&self) -> Vec<usize> {
        self.refused(Status::TenantQuotaExceeded)
    }

    fn refused(&self, why: Status) -> Vec<usize> {
        let full = why.code();
        let status = self.columns.status.iter().enumerate();
        status.filter_map(|(position, status)| (*status == full).then_some(position)).collect()
    }
}

impl Columns for StatusCodes {
    fn entries(&self) -> usize {
        self.0.len()
    }

    fn push(&mut self, part: Option<(&Self, usize)>) {
        self.0.push(part.map_or(Status::InternalError.code(), |(part, from)| part.0[from]));
    }
}

impl<C: HasLocations> Columns for MergedColumns<C> {
    fn entries(&self) -> usize {
        self.columns.counts().len()
    }

    fn seal(&mut self) {
        self.starts = starts(self.columns.counts());
        let counted: usize = self.columns.counts().iter().map(|count| usize::from(*count)).sum();
        debug_assert_eq!(counted, self.columns.locations().len(), "each location is of a key");
    }

    fn push(&mut self, part: Option<(&Self, usize)>) {
        let key = part.map(|(part, from)| (&part.columns, from));
        self.columns.push_key(key);
        if let Some((part, from)) = part {
            let keys = part.columns.counts().len();
            debug_assert_eq!(part.starts.len(), keys, "a part is whole before it is taken over");
            let count = usize::from(part.columns.counts()[from]);
            let theirs = part.columns.locations();
            let own = &theirs[part.starts[from]..part.starts[from] + count];
            self.columns.locations_mut().extend(own);
        }
    }
}

impl HasLocations for ReplicaColumns {
    fn push_key(&mut self, part: Option<(&Self, usize)>) {
        let (status, checksum, bytes, count, lease) = part.map_or(LOST_KEY, |(part, from)| {
            let (status, checksum) = (part.status[from], part.checksum[from]);
            (
                status,
                checksum,
                part.payload_bytes[from],
                part.location_count[from],
                part.lease[from],
            )
        });
        self.lease.push(lease);
        self.status.push(status);
        self.checksum.push(checksum);
        self.payload_bytes.push(bytes);
        self.location_count.push(count);
    }

    fn counts(&self) -> &[u8] {
        &self.location_count
    }

    fn locations(&self) -> &[ReplicaLocation] {
        &self.locations
    }

    fn locations_mut(&mut self) -> &mut Vec<ReplicaLocation> {
        &mut self.locations
    }
}

impl HasLocations for PlacementColumns {
    fn push_key(&mut self, part: Option<(&Self, usize)>) {
        let (status, _, _, count, _) = part.map_or(LOST_KEY, |(part, from)| {
            (part.status[from], 0, 0, part.location_count[from], 0)
        });
        self.status.push(status);
        self.location_count.push(count);
    }

    fn counts(&self) -> &[u8] {
        &self.location_count
    }

    fn locations(&self) -> &[ReplicaLocation] {
        &self.locations
    }

    fn locations_mut(&mut self) -> &mut Vec<ReplicaLocation> {
        &mut self.locations
    }
}

fn starts(counts: &[u8]) -> Vec<usize> {
    let mut next = 0;
    let begin = |count: &u8| {
        let start = next;
        next += usize::from(*count);
        start
    };
    counts.iter().map(begin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_master::ReplicaState;

    fn replicas(keys: &[(i32, &[u64])]) -> Replicas {
        let mut replicas = Replicas::default();
        for (status, offsets) in keys {
            replicas.columns.status.push(*status);
            replicas.columns.checksum.push(offsets.len() as u32);
            replicas.columns.payload_bytes.push(10);
            replicas.columns.lease.push(offsets.len() as u64);
            replicas.columns.location_count.push(offsets.len() as u8);
            replicas.columns.locations.extend(offsets.iter().map(|offset| ReplicaLocation {
                segment: 0,
                state: ReplicaState::Complete,
                offset: *offset,
                payload_bytes: 10,
                generation: 1,
                part: None,
                part_checksum: 0,
            }));
        }
        replicas.seal();
        replicas
    }

    fn placements(keys: &[(i32, &[u64])]) -> Placements {
        let replicas = replicas(keys).columns;
        let mut placements = Placements::default();
        placements.columns.status = replicas.status;
        placements.columns.location_count = replicas.location_count;
        placements.columns.locations = replicas.locations;
        placements
    }

    #[test]
    fn entries_that_were_tried_again_replace_those_without_space() {
        let full = Status::NoAvailableHandle.code();
        let first = placements(&[(full, &[]), (0, &[1, 2]), (full, &[]), (-705, &[])]);
        assert_eq!(first.short(), [0, 2]);
        let whole = first.replaced(&[0, 2], placements(&[(0, &[7]), (full, &[])]));
        assert_eq!(whole.columns.status, [0, 0, full, -705]);
        let offsets = whole.columns.locations.iter().map(|location| location.offset);
        assert_eq!(offsets.collect::<Vec<_>>(), [7, 1, 2]);
        assert_eq!(whole.columns.location_count, [1, 2, 0, 0]);
    }

    #[test]
    fn entries_keep_their_locations_when_shards_are_joined() {
        let (left, right) = (replicas(&[(0, &[1, 2]), (-704, &[])]), replicas(&[(0, &[3])]));
        let mut whole = Replicas::default();
        whole.push(Some((&right, 0)));
        whole.push(None);
        whole.push(Some((&left, 1)));
        whole.push(Some((&left, 0)));
        assert_eq!(whole.columns.status, [0, Status::InternalError.code(), -704, 0]);
        let offsets: Vec<u64> =
            whole.columns.locations.iter().map(|location| location.offset).collect();
        assert_eq!(offsets, [3, 1, 2]);
        assert_eq!(whole.columns.lease, [1, 0, 0, 2]);
        assert_eq!(whole.columns.location_count, [1, 0, 0, 2]);
    }
}
