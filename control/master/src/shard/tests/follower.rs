//! An owner that keeps the records of its segments. Invariant checked: what they say in the end is
//! what the shard knows to be complete there.

use std::collections::BTreeMap;

use perigee_schemas::Identity;
use perigee_schemas::record::{Record, RecordOp};

use super::*;
use crate::object::Flags;

/// Offset, payload bytes, checksum, client, flags, key and group of an object.
type Kept = (u64, u64, u32, u128, u8, Vec<u8>, Vec<u8>);

#[derive(Default)]
pub(super) struct Follower {
    /// By segment and generation.
    kept: BTreeMap<u32, BTreeMap<u64, Kept>>,
    /// By segment.
    sequences: BTreeMap<u32, u64>,
    turns: u32,
}

impl Follower {
    /// Takes the records so far, follows new segments, and now and then one of them from the start.
    /// Panics unless it then knows each complete replica, and no other.
    pub(super) fn catch_up(&mut self, shard: &mut KeyShard) {
        self.turns += 1;
        while let Some((segment, records)) = shard.take_records() {
            self.keep(segment, &records.expect("few records"));
        }
        let memory = shard.space.iter().filter(|(_, share)| share.is_memory());
        let mounted: Vec<u32> = memory.map(|(segment, _)| segment).collect();
        self.kept.retain(|segment, _| mounted.contains(segment));
        for segment in mounted {
            let is_due = self.turns % 16 == segment % 16;
            if is_due || !self.kept.contains_key(&segment) {
                self.begin(shard, segment);
            }
            assert_eq!(self.kept[&segment], complete_in(shard, segment), "of segment {segment}");
        }
    }

    /// What is kept of a segment, in order of offsets.
    pub(super) fn records(&self, segment: u32) -> Vec<Record<'_>> {
        let kept = self.kept.get(&segment).into_iter().flatten();
        let mut records: Vec<Record<'_>> = kept
            .map(|(generation, (offset, payload_bytes, checksum, client, flags, key, group))| {
                Record {
                    op: RecordOp::Commit,
                    flags: *flags,
                    checksum: *checksum,
                    sequence: *generation,
                    generation: *generation,
                    offset: *offset,
                    payload_bytes: *payload_bytes,
                    client: Identity(*client),
                    key,
                    group,
                    part: None,
                }
            })
            .collect();
        records.sort_by_key(|record| record.offset);
        records
    }

    fn begin(&mut self, shard: &mut KeyShard, segment: u32) {
        assert!(shard.follow(segment));
        self.kept.insert(segment, BTreeMap::new());
        let mut from = Some(0);
        while let Some(at) = from {
            from = shard.snapshot(segment, at);
        }
        while let Some((segment, records)) = shard.take_records() {
            self.keep(segment, &records.expect("few records"));
        }
    }

    fn keep(&mut self, segment: u32, mut records: &[u8]) {
        let kept = self.kept.entry(segment).or_default();
        while !records.is_empty() {
            let record = Record::decode(records).expect("whole records");
            records = &records[record.encoded_bytes()..];
            let before = self.sequences.insert(segment, record.sequence);
            assert!(before.is_none_or(|before| before < record.sequence), "numbers grow");
            match record.op {
                RecordOp::Commit => {
                    kept.insert(record.generation, kept_of(&record));
                }
                RecordOp::Free => {
                    kept.remove(&record.generation);
                }
                RecordOp::Flags => {
                    if let Some(kept) = kept.get_mut(&record.generation) {
                        kept.4 = record.flags;
                    }
                }
                RecordOp::Void | RecordOp::Removed | RecordOp::RemovedPattern => {}
            }
        }
    }
}

fn kept_of(record: &Record<'_>) -> Kept {
    let Record { offset, payload_bytes, checksum, client, flags, key, group, .. } = *record;
    (offset, payload_bytes, checksum, client.0, flags, key.to_vec(), group.to_vec())
}

fn complete_in(shard: &KeyShard, segment: u32) -> BTreeMap<u64, Kept> {
    let mut complete = BTreeMap::new();
    for (number, object) in shard.stored.keys.iter() {
        let flags = [(Flags::HARD_PIN, Record::HARD_PIN), (Flags::SOFT_PIN, Record::SOFT_PIN)];
        let flags = flags.iter().filter(|(own, _)| object.flags.has(*own));
        let replicas = Record::flags_of_replicas(shard.wishes.wanted_replicas(
            &shard.stored,
            &shard.rebuild,
            number,
        ));
        let flags = flags.fold(replicas, |all, (_, wire)| all | wire);
        let group = shard.stored.groups.name(object.group).unwrap_or_default().as_bytes().to_vec();
        for id in shard.stored.replicas.chain(object.first) {
            let replica = &shard.stored.replicas[id];
            if replica.segment == segment {
                let (bytes, key) = (replica.payload_bytes, object.key().to_vec());
                let it = (replica.offset, bytes, object.checksum, object.owner, flags, key);
                let kept = (it.0, it.1, it.2, it.3, it.4, it.5, group.clone());
                complete.insert(replica.generation, kept);
            }
        }
    }
    complete
}

#[test]
fn owners_hear_of_every_object_that_appears_changes_or_goes() {
    let mut stage = Stage::new(&[8, 8]);
    let mut follower = Follower::default();
    follower.catch_up(&mut stage.shard);
    let config = PutConfig {
        replica_num: 2,
        soft_pin: SoftPin::Enable { ttl_ms: None },
        ..PutConfig::default()
    };
    assert_eq!(stage.put_with("a", &config), 0);
    follower.catch_up(&mut stage.shard);
    assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &PutConfig::default(), true), 0);
    assert_eq!(stage.end("a"), 0);
    follower.catch_up(&mut stage.shard);
    assert_eq!(stage.put("b"), 0);
    stage.shard.remove(stage.now_ms, &[b"a"], true, &mut stage.status);
    follower.catch_up(&mut stage.shard);
    let kept: Vec<&Kept> = follower.kept.values().flat_map(BTreeMap::values).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].5, b"b");
}
