//! Facts about write budgets of disks: what is admitted, what is charged, and what is said of the
//! rest.

use super::demotion::{DISK, OWNER, address, offload};
use super::*;
use crate::AdmissionLevel;
use crate::counters::RefusedDemotions;
use crate::limits::{DAY_MS, HEAD_KEYS};
use perigee_schemas::{SegmentKind, Status};

const DISK_BYTES: u64 = 1 << 40;

/// A segment with room for so many objects, and a disk that takes so many within a day.
fn stage(objects: u64, daily: u64) -> Stage {
    let drive_writes_per_day = (daily * EXTENT_BYTES) as f64 / DISK_BYTES as f64;
    let offload = OffloadSettings { drive_writes_per_day, ..offload() };
    let mut stage = Stage::with(ShardSettings { offload: Some(offload), ..settings() }, &[objects]);
    stage.mount_disk(DISK);
    stage
}

impl Stage {
    /// Puts a key that has a place in its batch.
    fn put_at(&mut self, key: &str, place: usize) -> i32 {
        let batch = PutStart {
            client: WRITER,
            keys: &[key.as_bytes()],
            payload_bytes: &[PAYLOAD_BYTES],
            positions: &[place],
            batch_keys: 0,
            groups: &[],
            config: &PutConfig::default(),
            upsert: false,
            effort: Effort::Last,
        };
        self.shard.put_start(self.now_ms, &batch, &mut self.placements);
        let status = self.placements.status[0];
        if status == 0 {
            self.generations.insert(key.to_owned(), self.placements.locations[0].generation);
            return self.end(key);
        }
        status
    }

    /// Puts keys far from the begin of their prefix, each evicting what is in its way, and writes
    /// what is to be written.
    fn pour(&mut self, name: &str, keys: usize) {
        for key in 0..keys {
            let key = format!("{name}{key}");
            self.tick();
            for task in self.take_demotions() {
                assert_eq!(self.end_demotion(&task, 0, address(1)), 0);
            }
            assert_eq!(self.put_at(&key, HEAD_KEYS), 0, "{key}: no put waits for a budget");
        }
    }

    fn budget_left(&self) -> u64 {
        self.shard.gauges().budget_left_bytes / EXTENT_BYTES
    }
}

#[test]
fn without_a_bound_nothing_is_refused_or_counted() {
    let mut stage = Stage::with(ShardSettings { offload: Some(offload()), ..settings() }, &[4]);
    stage.mount_disk(DISK);
    stage.pour("key", 40);
    assert!(stage.shard.tier.budgets.is_none());
    assert_eq!(stage.shard.gauges().budget_bytes_per_day, 0);
    assert_eq!(stage.shard.counters().demotions_refused, RefusedDemotions::default());
    assert_eq!(stage.shard.counters().evicted_keys, 0, "all have copies");
}

#[test]
fn what_is_read_or_begins_a_prefix_still_goes_to_a_disk_whose_budget_is_short() {
    let mut stage = stage(4, 20);
    stage.pour("key", 40);
    let budget = stage.shard.write_budget(900).unwrap();
    assert_eq!(budget.level, AdmissionLevel::HeadsToo, "{budget:?}");
    let refused = stage.shard.counters().demotions_refused;
    assert!(refused.heads_too > 10 && refused.hits == 0, "{refused:?}");
    assert_eq!(stage.shard.counters().unsaved_keys, 0, "that was no lack of time");
    for (key, place) in [("head", HEAD_KEYS - 1), ("tail", HEAD_KEYS), ("read", HEAD_KEYS)] {
        stage.put_at(key, place);
    }
    stage.get("read");
    stage.pass(LEASE_MS);
    stage.pour("more", 12);
    assert_eq!(stage.lies_in("head"), [DISK]);
    assert_eq!(stage.lies_in("read"), [DISK]);
    assert!(!stage.holds("tail"));
}

#[test]
fn a_key_that_came_back_after_it_was_evicted_counts_as_read() {
    let mut stage = stage(4, 20);
    stage.pour("key", 40);
    stage.put_at("back", HEAD_KEYS);
    stage.pour("more", 6);
    assert!(!stage.holds("back"));
    stage.put_at("back", HEAD_KEYS);
    stage.pour("again", 40);
    assert_eq!(stage.lies_in("back"), [DISK]);
}

#[test]
fn a_budget_that_is_spent_refuses_all_and_a_day_brings_all_of_it_back() {
    let mut stage = stage(4, 20);
    for key in 0..60 {
        let key = format!("head{key}");
        stage.tick();
        for task in stage.take_demotions() {
            assert_eq!(stage.end_demotion(&task, 0, address(1)), 0);
        }
        assert_eq!(stage.put_at(&key, 0), 0);
    }
    assert_eq!(stage.budget_left(), 3, "what is left is for hits");
    assert_eq!(stage.shard.write_budget(900).unwrap().level, AdmissionLevel::Hits);
    assert!(stage.shard.counters().demotions_refused.hits > 20);
    stage.pass(DAY_MS);
    stage.tick();
    assert_eq!(stage.shard.write_budget(900).unwrap().level, AdmissionLevel::All);
}

#[test]
fn what_is_not_written_is_not_charged() {
    let mut stage = stage(40, 20);
    let keys: Vec<String> = (0..40).map(|key| format!("{key}")).collect();
    keys.iter().for_each(|key| assert_eq!(stage.put(key), 0));
    stage.tick();
    let tasks = stage.take_demotions();
    let begun = stage.shard.gauges().demotions;
    assert_eq!(stage.budget_left(), 20 - begun);
    assert_eq!(stage.end_demotion(&tasks[0], code(Status::InternalError), 0), 0);
    assert!(stage.budget_left() >= 20 - begun);
    let left = stage.budget_left();
    // Its owner may have written this one.
    let shard = &mut stage.shard;
    shard.remove(stage.now_ms, &[&tasks[1].key], false, &mut stage.status);
    assert_eq!(stage.budget_left(), left);
}

#[test]
fn of_two_disks_the_one_that_is_less_full_takes_the_next_copy() {
    let mut stage = stage(40, 0);
    let spec = SegmentSpec { kind: SegmentKind::Disk, ..SegmentSpec::bare(901, OWNER, DISK_BYTES) };
    stage.mount(spec, DISK + 1);
    (0..40).for_each(|key| assert_eq!(stage.put(&format!("{key}")), 0));
    stage.tick();
    let tasks = stage.take_demotions();
    let first = tasks.iter().filter(|task| task.disk == DISK).count();
    assert!(tasks.len() >= 4 && first.abs_diff(tasks.len() - first) <= 1, "{first}");
}

#[test]
fn a_disk_that_is_mounted_again_has_the_budget_that_it_had() {
    let mut stage = stage(4, 20);
    stage.pour("key", 40);
    let left = stage.budget_left();
    assert!(left < 15);
    stage.apply(&SegmentEvent::Unmounted { index: DISK });
    stage.mount_disk(DISK + 1);
    assert_eq!(stage.budget_left(), left);
}
