//! Objects on their way from memory to a disk, as the master gives them out.

use perigee_rpc::{DemotionBatch, EndedDemotion};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::{Identity, Status};
use perigee_ssd::log::NewObject;
use perigee_ssd::{ImageSource, Outgoing, VoidCopy, WriteError};
use perigee_transfer::SegmentTable;
use std::collections::BTreeMap;

/// What names one of them to the master and to its disk.
#[derive(Debug)]
pub(super) struct TakenDemotion {
    pub(super) key: String,
    hash: u64,
    generation: u64,
    /// Where the copy lies, or why there is none.
    pub(super) outcome: Result<DiskAddress, Status>,
}

impl TakenDemotion {
    pub(super) fn ended(&self) -> EndedDemotion<'_> {
        EndedDemotion {
            key: &self.key,
            generation: self.generation,
            status: self.outcome.err().unwrap_or(Status::Ok),
            address: self.outcome.map_or(0, DiskAddress::pack),
        }
    }

    pub(super) fn void(&self) -> VoidCopy {
        VoidCopy { hash: self.hash.into(), generation: self.generation }
    }
}

/// A batch of demotions, with what the disks need.
#[derive(Debug, Default)]
pub(super) struct Parted {
    /// By disk.
    pub(super) outgoing: BTreeMap<Identity, Vec<(TakenDemotion, Outgoing)>>,
    /// What cannot be written.
    pub(super) failed: Vec<TakenDemotion>,
}

/// Parts a batch by the disks it is for.
pub(super) fn part(batch: DemotionBatch, table: &SegmentTable) -> Parted {
    let DemotionBatch { keys, groups, hash, checksum, sources, disks, segments, left: _ } = batch;
    let wanted = keys.len();
    let columns = [groups.len(), hash.len(), checksum.len(), sources.len(), disks.len()];
    debug_assert_eq!(columns, [wanted; 5], "each column has an entry per key");
    let mut parted = Parted::default();
    let columns = keys.into_iter().zip(groups).zip(hash).zip(checksum).zip(sources).zip(disks);
    for (((((key, group), hash), checksum), source), disk) in columns {
        let (disk, generation) = (segments[disk as usize].id, source.generation);
        let payload_bytes = u32::try_from(source.payload_bytes).ok();
        let segment = table.get(segments[source.segment as usize].id);
        let image = segment
            .zip(payload_bytes)
            .and_then(|(segment, bytes)| ImageSource::of_segment(segment, source.offset, bytes));
        let outcome = Err(Status::InvalidReplica);
        let demotion = TakenDemotion { key, hash, generation, outcome };
        let (Some(source), Some(payload_bytes)) = (image, payload_bytes) else {
            parted.failed.push(demotion);
            continue;
        };
        let object = NewObject {
            hash: hash.into(),
            generation,
            payload_bytes,
            checksum,
            flags: 0,
            frequency: 0,
            labels: perigee_ssd::format::Labels {
                key: demotion.key.clone().into_bytes(),
                // The key has it in front.
                tenant: Vec::new(),
                group: group.into_bytes(),
            },
        };
        let outgoing = Outgoing { object, source };
        parted.outgoing.entry(disk).or_default().push((demotion, outgoing));
    }
    let outgoing: usize = parted.outgoing.values().map(Vec::len).sum();
    debug_assert_eq!(outgoing + parted.failed.len(), wanted, "each is written or has failed");
    parted
}

/// What the master hears of a copy that was not written.
pub(super) fn status_of(error: &WriteError) -> Status {
    match error {
        WriteError::Changed | WriteError::Removed => Status::ReplicaIsGone,
        WriteError::Full | WriteError::State(_) => Status::UnavailableInCurrentStatus,
        _ => Status::WriteFail,
    }
}
