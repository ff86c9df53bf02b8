//! Facts about quotas of tenants. What holds after any sequence of calls is in the model.

use perigee_schemas::TenantId;
use perigee_schemas::record::{Record, RecordOp};
use perigee_schemas::{Identity, tenant::DEFAULT_TENANT};

use super::demotion::{DISK, OWNER, address, offload};
use super::*;
use crate::segment::Announces;
use crate::settings::PromotionSettings;

/// A stage whose segments have room for so many objects, and whose tenants may hold so many.
fn stage(segments: &[u64], quotas: &[(&str, u64)]) -> (Stage, TenantLedger) {
    with(settings(), segments, quotas)
}

fn with(
    settings: ShardSettings,
    segments: &[u64],
    quotas: &[(&str, u64)],
) -> (Stage, TenantLedger) {
    let ledger = TenantLedger::new(settings.watermark_ratio);
    let mut shard = KeyShard::new(settings);
    shard.charge_to(&ledger);
    for (tenant, objects) in quotas {
        ledger.set_quota(tenant, objects * EXTENT_BYTES).expect("a quota of something");
    }
    (Stage::of(shard, segments), ledger)
}

/// Two tenants that may hold four objects each, with room for more in memory and on a disk.
fn with_disk(promotion: Option<PromotionSettings>) -> (Stage, TenantLedger) {
    let settings = ShardSettings { offload: Some(offload()), promotion, ..settings() };
    let (mut stage, ledger) = with(settings, &[20], &[("red", 4), ("blue", 4)]);
    stage.mount_disk(DISK);
    (stage, ledger)
}

fn key(tenant: &str, key: &str) -> String {
    TenantId::parse(tenant).unwrap().stored(key).into_owned()
}

fn put(stage: &mut Stage, tenant: &str, name: &str) -> i32 {
    stage.put(&key(tenant, name))
}

/// Objects' worth of bytes that a tenant is charged for.
fn charged(ledger: &TenantLedger, tenant: &str) -> u64 {
    let usage = ledger.usage(tenant).unwrap_or_default();
    assert_eq!(usage.charged_bytes % EXTENT_BYTES, 0);
    usage.charged_bytes / EXTENT_BYTES
}

/// What one call may have changed: a put is admitted within the quota alone, and what was evicted
/// for others leaves each tenant what is guaranteed to it.
pub(super) fn check(
    before: &[TenantUsage],
    ledger: &TenantLedger,
    writer: Option<&TenantId>,
    started: bool,
) {
    for usage in ledger.usages() {
        let is_writer = writer.is_some_and(|writer| writer.name() == usage.name);
        if is_writer {
            assert!(!started || usage.charged_bytes <= usage.effective_bytes, "{usage:?}");
            continue;
        }
        let evicted_before = before.iter().find(|it| it.name == usage.name);
        let evicted_before = evicted_before.map_or(0, |it| it.evicted_bytes);
        if usage.evicted_bytes > evicted_before {
            assert!(usage.charged_bytes >= usage.guaranteed_bytes, "{usage:?}");
        }
    }
}

#[test]
fn a_tenant_without_a_quota_puts_nothing() {
    let (mut stage, ledger) = stage(&[4], &[("red", 2)]);
    let refused = code(Status::TenantNotRegistered);
    for tenant in ["blue", DEFAULT_TENANT] {
        assert_eq!(put(&mut stage, tenant, "k"), refused, "{tenant}");
    }
    assert_eq!(put(&mut stage, "red", "k"), 0);
    assert_eq!(ledger.totals().strangers, 2);
    assert_eq!(ledger.usages().len(), 1, "strangers have no account");
    stage.remove(&key("red", "k"), true);
    ledger.remove_quota("red").unwrap();
    assert_eq!(put(&mut stage, "red", "k"), refused);
    ledger.set_quota("red", EXTENT_BYTES).unwrap();
    assert_eq!(put(&mut stage, "red", "k"), 0);
}

#[test]
fn a_tenant_whose_quota_is_used_up_loses_its_own_oldest() {
    let (mut stage, ledger) = stage(&[4, 4], &[("red", 2), ("blue", 4)]);
    put(&mut stage, "blue", "oldest");
    for name in ["a", "b", "c"] {
        assert_eq!(put(&mut stage, "red", name), 0);
    }
    let held = ["a", "b", "c"].map(|name| stage.holds(&key("red", name)));
    assert_eq!(held, [false, true, true]);
    assert!(stage.holds(&key("blue", "oldest")));
    assert_eq!((charged(&ledger, "red"), charged(&ledger, "blue")), (2, 1));
    let usage = ledger.usage("red").unwrap();
    assert_eq!((usage.evicted_bytes, usage.objects), (PAYLOAD_BYTES, 2));
}

#[test]
fn what_no_quota_can_hold_or_free_is_refused_and_evicts_nothing() {
    let (mut stage, _) = stage(&[8, 8], &[("red", 2)]);
    put(&mut stage, "red", "a");
    let full = code(Status::TenantQuotaExceeded);
    let config = PutConfig::default();
    assert_eq!(stage.start_with(&key("red", "large"), 3 * PAYLOAD_BYTES, &config, false), full);
    assert!(stage.holds(&key("red", "a")), "that would not make room");
    put(&mut stage, "red", "b");
    for name in ["a", "b"] {
        stage.get(&key("red", name));
    }
    assert_eq!(put(&mut stage, "red", "c"), full, "all it has is being read");
    stage.pass(LEASE_MS);
    assert_eq!(put(&mut stage, "red", "c"), 0);
}

#[test]
fn each_replica_is_charged_and_what_was_not_placed_is_not() {
    let (mut stage, ledger) = stage(&[2, 2], &[("red", 4)]);
    let config = PutConfig { replica_num: 3, ..PutConfig::default() };
    assert_eq!(stage.start_with(&key("red", "a"), PAYLOAD_BYTES, &config, false), 0);
    assert_eq!(charged(&ledger, "red"), 2, "unfinished, and one per segment");
    assert_eq!(stage.revoke(WRITER, &key("red", "a")), 0);
    assert_eq!(charged(&ledger, "red"), 0);
    assert_eq!(
        stage.start_with(&key("red", "a"), 9 * PAYLOAD_BYTES, &config, false),
        code(Status::TenantQuotaExceeded)
    );
    assert_eq!(charged(&ledger, "red"), 0);
}

#[test]
fn what_others_need_is_taken_from_those_above_their_guarantee() {
    let settings = ShardSettings { watermark_ratio: 0.5, ..settings() };
    let (mut stage, ledger) = with(settings, &[10], &[("red", 8), ("blue", 2), ("green", 8)]);
    // Scaled to the ten that there is: 4.4, 1.1 and 4.4, of which half is guaranteed.
    put(&mut stage, "blue", "oldest");
    for name in ["a", "b", "c", "d"] {
        assert_eq!(put(&mut stage, "red", name), 0);
    }
    assert_eq!(charged(&ledger, "red"), 4);
    stage.age();
    stage.tick();
    assert_eq!(stage.shard.gauges().keys, 5, "at the watermark nothing goes");
    stage.age();
    for name in ["a", "b", "c", "d"] {
        assert_eq!(put(&mut stage, "green", name), 0);
        stage.age();
        stage.tick();
    }
    assert!(stage.holds(&key("blue", "oldest")), "it is within its guarantee");
    let usages = ledger.usages();
    assert!(usages.iter().all(|it| it.charged_bytes >= it.guaranteed_bytes), "{usages:?}");
    assert!(charged(&ledger, "red") < 4, "red was above its guarantee");
}

#[test]
fn a_quota_that_is_lowered_is_enforced_by_the_next_put() {
    let (mut stage, ledger) = stage(&[8], &[("red", 4), ("blue", 4)]);
    for name in ["a", "b", "c", "d"] {
        put(&mut stage, "red", name);
    }
    let usage = ledger.set_quota("red", 2 * EXTENT_BYTES).unwrap();
    assert!(usage.is_over());
    assert_eq!(put(&mut stage, "red", "e"), 0);
    assert_eq!(charged(&ledger, "red"), 2);
    assert!(stage.holds(&key("red", "d")) && !stage.holds(&key("red", "c")));
}

#[test]
fn quotas_follow_the_segments() {
    let (mut stage, ledger) = stage(&[4, 4], &[("red", 8)]);
    assert_eq!(ledger.usage("red").unwrap().effective_bytes, 8 * EXTENT_BYTES);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 1 });
    assert_eq!(ledger.usage("red").unwrap().effective_bytes, 4 * EXTENT_BYTES);
    assert_eq!(ledger.totals().capacity_bytes, 4 * EXTENT_BYTES);
}

#[test]
fn a_drain_is_charged_beside_its_source_even_when_the_quota_is_used_up() {
    let (mut stage, ledger) = stage(&[2], &[("red", 2)]);
    for name in ["a", "b"] {
        put(&mut stage, "red", name);
    }
    stage.mount(spec(1, 2 * EXTENT_BYTES), 1);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Draining { index: 0 });
    let order = DrainOrder { job: 1, sources: [0].into(), targets: [].into(), allowance: 2 };
    stage.shard.drain_turn(stage.now_ms, &order);
    assert_eq!(charged(&ledger, "red"), 4);
    for task in stage.shard.take_moves(stage.now_ms, 100, 2) {
        let ended = EndedMoves {
            client: 100,
            keys: &[&task.key],
            generations: &[task.target.generation],
            status: &[0],
            in_flight: &[false],
        };
        stage.shard.end_moves(stage.now_ms, &ended, &mut stage.status);
        stage.shard.check();
    }
    assert_eq!(charged(&ledger, "red"), 2);
    assert!(stage.holds(&key("red", "a")) && stage.holds(&key("red", "b")));
}

#[test]
fn what_an_owner_announces_is_charged_also_to_tenants_without_a_quota() {
    let (mut stage, ledger) = stage(&[], &[("red", 1)]);
    let spec = SegmentSpec { announces: Announces::Objects, ..spec(0, 4 * EXTENT_BYTES) };
    stage.mount(spec, 0);
    let names = [key("red", "a"), key("red", "b"), key("blue", "c")];
    let record = |at: usize| Record {
        op: RecordOp::Commit,
        flags: 0,
        checksum: 5,
        sequence: 1 << 40,
        generation: 77 + at as u64,
        offset: at as u64 * EXTENT_BYTES,
        payload_bytes: PAYLOAD_BYTES,
        client: Identity(WRITER),
        key: names[at].as_bytes(),
        group: b"",
        part: None,
    };
    let records = [record(0), record(1), record(2)];
    let free = [perigee_allocator::Extent::new(3 * EXTENT_BYTES, EXTENT_BYTES)];
    let whole = Announcement { records: &records, free: &free, removed: &[], is_last: true };
    assert_eq!(stage.shard.announce(stage.now_ms, 0, &whole), Ok(3));
    stage.shard.check();
    assert_eq!((charged(&ledger, "red"), charged(&ledger, "blue")), (2, 1));
    let usages = ledger.usages();
    assert!(usages.iter().all(TenantUsage::is_over), "{usages:?}");
    assert_eq!(put(&mut stage, "blue", "d"), code(Status::TenantNotRegistered));
    assert!(stage.holds(&key("blue", "c")), "it can still be read");
    assert_eq!(ledger.remove_quota("red"), Err(Status::TenantNotEmpty));
}

#[test]
fn quotas_wait_until_known_segments_are_back() {
    let (mut stage, ledger) = stage(&[], &[("red", 8)]);
    let spec = SegmentSpec { announces: Announces::Objects, ..spec(0, 4 * EXTENT_BYTES) };
    stage.mount(spec, 0);
    assert_eq!(ledger.usage("red").unwrap().effective_bytes, 8 * EXTENT_BYTES);
    stage.pass(crate::limits::AWAITED_MS);
    stage.tick();
    assert_eq!(ledger.usage("red").unwrap().effective_bytes, 4 * EXTENT_BYTES);
}

#[test]
fn shards_share_a_quota() {
    let ledger = TenantLedger::new(1.0);
    ledger.set_quota("red", 3 * EXTENT_BYTES).unwrap();
    let mut stages = [0, 1].map(|index| {
        let mut shard = KeyShard::new(ShardSettings { index, count: 2, ..settings() });
        shard.charge_to(&ledger);
        Stage::of(shard, &[16])
    });
    let [first, second] = &mut stages;
    for name in ["a", "b"] {
        assert_eq!(put(first, "red", name), 0);
    }
    assert_eq!(put(second, "red", "c"), 0);
    first.get(&key("red", "b"));
    assert_eq!(put(second, "red", "d"), 0, "what is here goes first");
    assert!(first.holds(&key("red", "a")) && !second.holds(&key("red", "c")));
    second.get(&key("red", "d"));
    let full = code(Status::TenantQuotaExceeded);
    assert_eq!(put(second, "red", "e"), full, "nothing of it may go here");
    let stored = key("red", "e");
    second.shard.count_refused(stored.as_bytes());
    assert_eq!(ledger.usage("red").unwrap().refused, 1);
    let (now_ms, one) = (first.now_ms, EXTENT_BYTES);
    first.shard.evict_of_tenant(now_ms, stored.as_bytes(), (one, 4 * one), 1);
    assert!(first.holds(&key("red", "a")), "no quota can hold it");
    first.shard.evict_of_tenant(now_ms, stored.as_bytes(), (one, one), 1);
    assert!(!first.holds(&key("red", "a")) && first.holds(&key("red", "b")));
    assert_eq!(put(second, "red", "e"), 0);
    assert_eq!(charged(&ledger, "red"), 3);
}

#[test]
fn what_a_tenant_at_its_quota_loses_has_a_copy_on_a_disk_by_then() {
    let (mut stage, ledger) = with_disk(None);
    put(&mut stage, "blue", "oldest");
    for name in ["a", "b", "c", "d"] {
        assert_eq!(put(&mut stage, "red", name), 0);
    }
    stage.tick();
    let tasks = stage.take_demotions();
    let keys: Vec<&[u8]> = tasks.iter().map(|task| &*task.key).collect();
    assert_eq!(keys, [key("red", "a").as_bytes()], "memory has room, the quota has none");
    assert_eq!(put(&mut stage, "red", "e"), code(Status::TenantQuotaExceeded), "not before");
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), 0);
    assert_eq!(put(&mut stage, "red", "e"), 0);
    assert_eq!(stage.lies_in(&key("red", "a")), [DISK]);
    let usage = ledger.usage("red").unwrap();
    assert_eq!((charged(&ledger, "red"), usage.objects), (4, 5), "disks are free of charge");
    assert_eq!(charged(&ledger, "blue"), 1);
    stage.remove(&key("red", "a"), true);
    assert_eq!((charged(&ledger, "red"), ledger.usage("red").unwrap().objects), (4, 4));
}

#[test]
fn all_replicas_of_an_object_can_be_ready_to_go_at_once() {
    let settings = ShardSettings { offload: Some(offload()), ..settings() };
    let (mut stage, ledger) = with(settings, &[4, 4], &[("red", 2)]);
    stage.mount_disk(DISK);
    let key = key("red", "a");
    let twice = PutConfig { replica_num: 2, ..PutConfig::default() };
    assert_eq!(stage.put_with(&key, &twice), 0);
    let generation = stage.generation(&key);
    assert_eq!(stage.announce(&key, generation, true), 0);
    ledger.set_quota("red", EXTENT_BYTES).expect("a quota of something");
    let has_more_to_do = stage.shard.tick(stage.now_ms, 1_000);
    assert!(!has_more_to_do, "the shard would be busy for as long as the quota is exceeded");
}

#[test]
fn what_is_promoted_needs_room_in_the_quota() {
    let promotion = PromotionSettings { threshold: Some(1), on_exist: false, queue_limit: 10 };
    let (mut stage, ledger) = with_disk(Some(promotion));
    for name in ["a", "b", "c", "d"] {
        put(&mut stage, "red", name);
    }
    stage.tick();
    for task in stage.take_demotions() {
        stage.end_demotion(&task, 0, address(1));
    }
    put(&mut stage, "red", "e");
    let a = key("red", "a");
    assert_eq!((stage.get(&a), charged(&ledger, "red")), (0, 4));
    assert!(!stage.shard.has_moves(OWNER), "the quota is used up");
    stage.remove(&key("red", "e"), true);
    assert_eq!((stage.get(&a), charged(&ledger, "red")), (0, 4), "it is charged at once");
    stage.end_next_move();
    assert_eq!(stage.lies_in(&a), [0, DISK]);
    assert_eq!(charged(&ledger, "red"), 4);
    stage.remove(&a, true);
    assert_eq!(charged(&ledger, "red"), 3, "once");
}

#[test]
fn copies_that_a_disk_announces_are_objects_but_not_charged() {
    let (mut stage, ledger) = with_disk(None);
    let stored = key("green", "a");
    assert_eq!(stage.announce(&stored, 1 << 40, true), 0);
    let usage = ledger.usage("green").expect("it has an object");
    assert_eq!((usage.charged_bytes, usage.objects, usage.is_closed), (0, 1, true));
    ledger.set_quota("green", EXTENT_BYTES).unwrap();
    assert_eq!(ledger.remove_quota("green"), Err(Status::TenantNotEmpty));
    stage.apply(&SegmentEvent::Unmounted { index: DISK });
    stage.tick();
    assert_eq!(ledger.remove_quota("green"), Ok(EXTENT_BYTES), "it went with the disk");
}

#[test]
fn a_tenant_at_its_quota_waits_for_no_disk_either() {
    let offload = OffloadSettings { force_evict: true, on_evict: false, ..offload() };
    let settings = ShardSettings { offload: Some(offload), ..settings() };
    let (mut stage, ledger) = with(settings, &[20], &[("red", 2), ("blue", 4)]);
    stage.mount_disk(DISK);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(put(&mut stage, "red", name), 0, "{name}");
    }
    assert_eq!(charged(&ledger, "red"), 2);
    assert_eq!(stage.shard.counters().unsaved_keys, 2);
}
