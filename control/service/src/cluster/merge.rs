//! Putting the columns of several shards back into the order of the request.

use perigee_master::{Location, PlacementColumns, ReplicaColumns};
use perigee_schemas::Status;

/// Columns that can be split by key and joined again.
pub(crate) trait Columns: Default + Send + 'static {
    /// Takes over entry `from` of `part` as the next entry; `None` if the shard that owns the key is gone.
    fn push(&mut self, part: Option<(&Self, usize)>);
}

/// One code per key.
#[derive(Debug, Default)]
pub(crate) struct Codes(pub(crate) Vec<i32>);

/// Looked-up replicas, and where each key's locations begin.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    pub(crate) columns: ReplicaColumns,
    starts: Vec<usize>,
}

/// Started puts, and where each key's locations begin.
#[derive(Debug, Default)]
pub(crate) struct Placements {
    pub(crate) columns: PlacementColumns,
    starts: Vec<usize>,
}

impl Replicas {
    pub(crate) fn index(&mut self) {
        self.starts = starts(&self.columns.location_count);
    }
}

impl Placements {
    pub(crate) fn index(&mut self) {
        self.starts = starts(&self.columns.location_count);
    }
}

impl Columns for Codes {
    fn push(&mut self, part: Option<(&Self, usize)>) {
        self.0
            .push(part.map_or(Status::InternalError.code(), |(part, from)| part.0[from]));
    }
}

impl Columns for Replicas {
    fn push(&mut self, part: Option<(&Self, usize)>) {
        let ours = &mut self.columns;
        match part {
            Some((part, from)) => {
                let theirs = &part.columns;
                ours.status.push(theirs.status[from]);
                ours.checksum.push(theirs.checksum[from]);
                ours.payload_bytes.push(theirs.payload_bytes[from]);
                ours.location_count.push(theirs.location_count[from]);
                ours.locations.extend(slice(
                    &theirs.locations,
                    &theirs.location_count,
                    &part.starts,
                    from,
                ));
            }
            None => {
                ours.status.push(Status::InternalError.code());
                ours.checksum.push(0);
                ours.payload_bytes.push(0);
                ours.location_count.push(0);
            }
        }
    }
}

impl Columns for Placements {
    fn push(&mut self, part: Option<(&Self, usize)>) {
        let ours = &mut self.columns;
        match part {
            Some((part, from)) => {
                let theirs = &part.columns;
                ours.status.push(theirs.status[from]);
                ours.location_count.push(theirs.location_count[from]);
                ours.locations.extend(slice(
                    &theirs.locations,
                    &theirs.location_count,
                    &part.starts,
                    from,
                ));
            }
            None => {
                ours.status.push(Status::InternalError.code());
                ours.location_count.push(0);
            }
        }
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

fn slice<'a>(
    locations: &'a [Location],
    counts: &[u8],
    starts: &[usize],
    index: usize,
) -> &'a [Location] {
    &locations[starts[index]..starts[index] + usize::from(counts[index])]
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
            replicas.columns.location_count.push(offsets.len() as u8);
            replicas
                .columns
                .locations
                .extend(offsets.iter().map(|offset| Location {
                    segment: 0,
                    state: ReplicaState::Complete,
                    offset: *offset,
                    payload_bytes: 10,
                    generation: 1,
                }));
        }
        replicas.index();
        replicas
    }

    #[test]
    fn entries_keep_their_locations_when_shards_are_joined() {
        let (left, right) = (
            replicas(&[(0, &[1, 2]), (-704, &[])]),
            replicas(&[(0, &[3])]),
        );
        let mut whole = Replicas::default();
        whole.push(Some((&right, 0)));
        whole.push(None);
        whole.push(Some((&left, 1)));
        whole.push(Some((&left, 0)));
        assert_eq!(
            whole.columns.status,
            [0, Status::InternalError.code(), -704, 0]
        );
        let offsets: Vec<u64> = whole
            .columns
            .locations
            .iter()
            .map(|location| location.offset)
            .collect();
        assert_eq!(offsets, [3, 1, 2]);
        assert_eq!(whole.columns.location_count, [1, 0, 0, 2]);
    }
}
