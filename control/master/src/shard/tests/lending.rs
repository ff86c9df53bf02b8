//! Facts about several shards: space follows demand, and an object may take the space of all of
//! them.

use perigee_allocator::{Extent, OffsetAllocator};

use super::fleet::{Fleet, keys_of};
use super::*;
use crate::key::shard_of;
use crate::loan::Need;
use crate::segment::Announces;
use crate::share::share_range;
use perigee_schemas::Identity;
use perigee_schemas::record::{Record, RecordOp};

#[test]
fn a_loan_that_comes_before_its_segment_is_kept() {
    let mut fleet = Fleet::new(2, &[]);
    let (now_ms, bytes) = (fleet.now_ms, 1 << 20);
    let spec = Arc::new(spec(0, bytes));
    let mounted = SegmentEvent::Mounted { index: 0, spec };
    fleet.shards[0].apply(now_ms, &mounted);
    let loans = fleet.shards[0].surrender(0);
    assert!(!loans.is_empty());
    fleet.send(1, loans);
    fleet.shards[1].check();
    fleet.shards[1].apply(now_ms, &mounted);
    fleet.bytes_of_segment.insert(0, bytes);
    fleet.check();
    assert_eq!(fleet.held(0), [0, bytes]);
}

#[test]
fn an_object_of_nine_tenths_of_the_segment_fits_into_an_empty_one() {
    for count in [1, 2, 3, 4, 16] {
        let mut fleet = Fleet::new(count, &[1 << 20]);
        assert_eq!(fleet.put("large", (9 << 20) / 10), 0, "{count} shards");
        assert_eq!(fleet.put("too large", (9 << 20) / 10 + (1 << 19)), -200);
        assert_eq!(fleet.evicted_keys(), 0);
    }
}

#[test]
fn an_object_of_nine_tenths_of_the_segment_evicts_what_is_in_its_way() {
    for count in [1, 2, 4] {
        let mut fleet = Fleet::new(count, &[1 << 20]);
        for number in 0..200 {
            assert_eq!(fleet.put(&format!("small-{number}"), 4_000), 0);
        }
        assert_eq!(fleet.put("large", (9 << 20) / 10), 0, "{count} shards");
    }
}

#[test]
fn nothing_is_evicted_for_an_object_whose_space_cannot_be_had() {
    let mut fleet = Fleet::new(4, &[1 << 20]);
    for number in 0..100 {
        assert_eq!(fleet.put(&format!("small-{number}"), 4_000), 0);
    }
    for number in 0..100 {
        let key = format!("small-{number}");
        let shard = &mut fleet.shards[shard_of(key.as_bytes(), 4)];
        let mut replicas = ReplicaColumns::default();
        shard.get_replicas(fleet.now_ms, &[key.as_bytes()], &mut replicas);
    }
    assert_eq!(fleet.put("large", (9 << 20) / 10), -200, "all are being read");
    assert_eq!(fleet.evicted_keys(), 0);
    fleet.now_ms += LEASE_MS;
    assert_eq!(fleet.put("large", (9 << 20) / 10), 0, "the leases have ended");
}

#[test]
fn keys_of_one_shard_fill_the_whole_segment_before_any_is_evicted() {
    let mut fleet = Fleet::new(4, &[1 << 20]);
    let keys: Vec<String> = keys_of(2, 4).take(250).collect();
    for key in &keys {
        assert_eq!(fleet.put(key, 4_000), 0);
    }
    assert_eq!(fleet.evicted_keys(), 0);
    assert!(fleet.held(0)[2] > (9 << 20) / 10, "{:?}", fleet.held(0));
}

#[test]
fn room_is_lent_before_the_watermark_evicts() {
    let settings = ShardSettings { watermark_ratio: 0.9, ..settings() };
    let mut fleet = Fleet::with(settings, 4, &[1 << 20]);
    for key in keys_of(0, 4).take(220) {
        assert_eq!(fleet.put(&key, 4_000), 0);
        fleet.now_ms += 10;
        fleet.tick();
    }
    assert_eq!(fleet.evicted_keys(), 0, "220 objects are 84 % of the segment");
    for key in keys_of(0, 4).skip(220).take(60) {
        assert_eq!(fleet.put(&key, 4_000), 0);
        fleet.now_ms += 10;
        fleet.tick();
    }
    assert!(fleet.evicted_keys() > 0, "280 objects are more than all of it");
}

#[test]
fn a_loan_comes_from_a_segment_that_stays_below_the_watermark() {
    let settings = ShardSettings { watermark_ratio: 0.9, index: 0, count: 2, ..settings() };
    let mut lender = Stage::with(settings, &[]);
    (0..2).for_each(|index| lender.mount(spec(index, 1 << 20), index));
    let first = PutConfig { preferred_segments: &["host-0:1"], ..PutConfig::default() };
    for key in 0..115 {
        assert_eq!(lender.start_with(&format!("{key}"), 4_000, &first, false), 0);
    }
    let need = |segment| Need {
        segment,
        used_bytes: 1 << 19,
        held_bytes: 1 << 19,
        waiting_bytes: 20_000,
        longest_bytes: 20_000,
        victim_idle_ms: 0,
    };
    let loans = lender.shard.lend(lender.now_ms, &[need(0), need(1)], 1);
    assert_eq!(loans.iter().map(|loan| loan.segment).collect::<Vec<_>>(), [1]);
    let loans = lender.shard.lend(lender.now_ms, &[need(0)], 1);
    assert_eq!(loans.len(), 1, "room above the watermark is room, too");
}

#[test]
fn what_has_been_idle_for_long_goes_first_whichever_shard_has_it() {
    let settings = ShardSettings { watermark_ratio: 0.9, ..settings() };
    let mut fleet = Fleet::with(settings, 2, &[1 << 20]);
    let (busy, quiet) = (keys_of(0, 2), keys_of(1, 2));
    for key in quiet.take(115) {
        assert_eq!(fleet.put(&key, 4_000), 0);
    }
    fleet.tick();
    let busy: Vec<String> = busy.take(400).collect();
    for key in &busy {
        fleet.now_ms += 50;
        assert_eq!(fleet.put(key, 4_000), 0);
        fleet.tick();
    }
    let kept = busy.iter().rev().take_while(|key| {
        let mut replicas = ReplicaColumns::default();
        fleet.shards[0].peek(&[key.as_bytes()], &mut replicas);
        replicas.status == [0]
    });
    let kept = kept.count();
    // Half of the segment, where each shard began, has room for 117 below the watermark.
    assert!(kept > 170, "{kept} objects, {:?}", fleet.held(0));
}

#[test]
fn a_shard_that_was_lent_nothing_evicts_without_asking_again_for_a_while() {
    let mut fleet = Fleet::new(2, &[8 * EXTENT_BYTES]);
    fleet.shards[0].note_dry(fleet.now_ms, [0]);
    assert!(!fleet.shards[0].may_borrow(fleet.now_ms));
    assert!(fleet.shards[0].may_borrow(fleet.now_ms + crate::limits::DRY_MS));
    assert!(fleet.shards[1].may_borrow(fleet.now_ms));
}

#[test]
fn shards_rebuild_who_holds_what_from_what_the_owner_announces() {
    let (count, bytes) = (3, 1 << 18);
    let mut fleet = Fleet::new(count, &[]);
    let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    let record = |number: usize| Record {
        op: RecordOp::Commit,
        flags: 0,
        checksum: 1,
        sequence: 7,
        generation: 1_000 + number as u64,
        offset: 5_000 * number as u64,
        payload_bytes: 4_000,
        client: Identity(WRITER),
        key: keys[number].as_bytes(),
        group: b"",
        part: None,
    };
    let records: Vec<Record<'_>> = (0..keys.len()).map(record).collect();
    let occupied = records.iter().map(|it| Extent::new(it.offset, extent_bytes(it.payload_bytes)));
    let whole = OffsetAllocator::rebuild(bytes, occupied).unwrap();
    let spec = Arc::new(SegmentSpec { announces: Announces::Objects, ..spec(0, bytes) });
    fleet.apply(&SegmentEvent::Mounted { index: 0, spec });
    let mut adopted = 0;
    for (index, shard) in fleet.shards.iter_mut().enumerate() {
        let is_own = |record: &&Record<'_>| shard_of(record.key, count) == index;
        let own: Vec<Record<'_>> = records.iter().filter(is_own).copied().collect();
        let (from, to) = share_range(bytes, index, count);
        let free: Vec<Extent> = whole
            .free_extents()
            .map(|it| (it.offset.max(from), (it.offset + it.bytes).min(to)))
            .filter(|(start, end)| start < end)
            .map(|(start, end)| Extent::new(start, end - start))
            .collect();
        let part = Announcement { records: &own, free: &free, removed: &[], is_last: true };
        adopted += shard.announce(fleet.now_ms, 0, &part).expect("it is being rebuilt");
    }
    assert_eq!(adopted, records.len());
    fleet.bytes_of_segment.insert(0, bytes);
    fleet.check();
}
