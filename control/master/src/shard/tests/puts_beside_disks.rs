//! Facts about puts beside disks that are slow: with `force_evict` none fails or waits for one, and
//! what goes without a copy is counted.

use perigee_schemas::{DiskHealth, SegmentKind};

use super::demotion::*;
use super::*;

fn forced() -> OffloadSettings {
    OffloadSettings { force_evict: true, ..offload() }
}

/// Full of keys that are on their way to the disk, taken by its owner.
fn all_on_their_way(offload: OffloadSettings) -> (Stage, Vec<DemotionTask>) {
    let mut stage = Stage::with_disk(OffloadSettings { on_evict: false, ..offload }, 3);
    for key in ["a", "b", "c"] {
        assert_eq!(stage.put(key), 0);
    }
    let tasks = stage.take_demotions();
    assert_eq!(tasks.len(), 3);
    (stage, tasks)
}

fn say(stage: &mut Stage, health: DiskHealth) {
    stage.apply(&SegmentEvent::Health { index: DISK, health });
}

#[test]
fn a_put_that_needs_room_takes_what_no_disk_has_yet_and_it_is_counted() {
    let mut stage = Stage::with_disk(forced(), 3);
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(stage.put(key), 0, "{key} waits for no disk");
    }
    assert!(!stage.holds("a") && !stage.holds("b") && stage.holds("c"), "the oldest went");
    assert_eq!(stage.shard.counters().unsaved_keys, 2);
}

#[test]
fn what_has_a_copy_goes_before_what_has_none() {
    let mut stage = Stage::with_disk(forced(), 10);
    (0..10).for_each(|key| assert_eq!(stage.put(&format!("{key}")), 0));
    stage.tick();
    let tasks = stage.take_demotions();
    assert_eq!(&*tasks[0].key, b"0");
    assert_eq!(stage.put("new"), 0);
    let next = tasks.len().to_string();
    assert!(!stage.holds(&next), "what is on its way stays while anything else may go");
    for task in &tasks {
        assert_eq!(stage.end_demotion(task, 0, address(1)), 0);
    }
    assert_eq!(stage.put("newer"), 0);
    assert_eq!(stage.lies_in("0"), [DISK]);
    assert_eq!(stage.shard.counters().unsaved_keys, 1);
}

#[test]
fn where_nothing_else_may_go_a_copy_that_is_under_way_is_given_up() {
    let (mut stage, tasks) = all_on_their_way(forced());
    assert_eq!(stage.put("d"), 0);
    assert!(!stage.holds("a"), "the oldest");
    assert_eq!(stage.tombstones(), [(hash("a"), tasks[0].source.generation)]);
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), code(Status::TaskNotFound));
    assert_eq!(stage.put("e"), 0);
    assert!(!stage.holds("d"), "what is not being written yet goes first: there nothing is void");
    assert_eq!(stage.tombstones().len(), 1);
    assert_eq!(stage.end_demotion(&tasks[1], 0, address(1)), 0);
    assert_eq!(stage.lies_in("b"), [0, DISK]);
    assert_eq!(stage.shard.counters().unsaved_keys, 2);
}

#[test]
fn without_force_a_put_is_refused_until_something_has_a_copy() {
    let (mut stage, tasks) = all_on_their_way(offload());
    assert_eq!(stage.put("d"), code(Status::NoAvailableHandle));
    assert_eq!(stage.shard.gauges().demoting_bytes, 3 * EXTENT_BYTES);
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), 0);
    assert_eq!(stage.put("d"), 0);
    assert_eq!(stage.shard.counters().unsaved_keys, 0);
}

#[test]
fn what_is_read_or_pinned_stays_though_it_is_on_its_way() {
    let mut stage = Stage::with_disk(OffloadSettings { on_evict: false, ..forced() }, 3);
    let pinned = PutConfig { hard_pin: true, ..PutConfig::default() };
    assert_eq!(stage.put_with("a", &pinned), 0);
    assert_eq!([stage.put("b"), stage.put("c")], [0, 0]);
    assert_eq!((stage.get("b"), stage.get("c")), (0, 0));
    assert_eq!(stage.put("d"), code(Status::NoAvailableHandle));
    assert!(["a", "b", "c"].iter().all(|key| stage.holds(key)));
    stage.pass(LEASE_MS + 1);
    assert_eq!([stage.put("d"), stage.put("e")], [0, 0]);
    assert_eq!(stage.put("f"), 0);
    assert!(stage.holds("a") && !stage.holds("b") && !stage.holds("c"));
}

#[test]
fn a_group_that_is_on_its_way_goes_as_a_whole() {
    let mut stage = Stage::with_disk(OffloadSettings { on_evict: false, ..forced() }, 3);
    for key in ["a", "b", "c"] {
        assert_eq!(stage.put_in_group(key, "group"), 0);
    }
    assert_eq!(stage.put("d"), 0);
    assert!(["a", "b", "c"].iter().all(|key| !stage.holds(key)));
    assert_eq!(stage.shard.counters().unsaved_keys, 3);
}

#[test]
fn a_disk_that_is_not_well_gets_nothing_and_nothing_waits_for_it() {
    use DiskHealth::*;
    for health in [Slow, Hung, Full, ReadOnly, Failed, Withdrawn] {
        let mut stage = Stage::with_disk(offload(), 3);
        for key in ["a", "b", "c"] {
            assert_eq!(stage.put(key), 0);
        }
        stage.tick();
        say(&mut stage, health);
        assert_eq!(stage.shard.gauges().demotions, 0, "{health:?}: what it has not taken is over");
        assert_eq!(stage.put("d"), 0, "{health:?}");
        assert_eq!(stage.shard.counters().unsaved_keys, 1);
        assert!(stage.take_demotions().is_empty());
        assert_eq!(stage.shard.gauges().ailing_disks, 1);
        say(&mut stage, Healthy);
        assert_eq!(stage.put("e"), code(Status::NoAvailableHandle), "it is well again");
        assert_eq!(stage.take_demotions().len(), 1);
    }
}

#[test]
fn what_a_slow_disk_is_writing_may_end_and_what_a_hung_one_is_writing_is_void() {
    let (mut stage, tasks) = all_on_their_way(offload());
    say(&mut stage, DiskHealth::Slow);
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), 0);
    say(&mut stage, DiskHealth::Hung);
    assert_eq!(stage.shard.gauges().demotions, 0);
    assert_eq!(stage.end_demotion(&tasks[1], 0, address(1)), code(Status::TaskNotFound));
    assert_eq!(stage.tombstones().len(), 2);
    assert_eq!([stage.put("d"), stage.put("e")], [0, 0]);
}

#[test]
fn a_disk_that_another_client_has_counts_nothing_as_unsaved() {
    let mut stage = Stage::with(with_offload(forced()), &[1]);
    let others =
        SegmentSpec { kind: SegmentKind::Disk, ..SegmentSpec::bare(DISK_ID, OWNER + 1, 1 << 40) };
    stage.mount(others, DISK);
    assert_eq!([stage.put("a"), stage.put("b")], [0, 0]);
    assert_eq!(stage.shard.counters().unsaved_keys, 0);
}

#[test]
fn a_disk_that_is_full_gets_one_object_now_and_then_to_see_whether_it_still_is() {
    for (health, tried) in [(DiskHealth::Full, 1), (DiskHealth::ReadOnly, 1), (DiskHealth::Hung, 0)]
    {
        let mut stage = Stage::with_disk(offload(), 10);
        assert_eq!([stage.put("a"), stage.put("b")], [0, 0]);
        say(&mut stage, health);
        stage.tick();
        assert!(stage.take_demotions().is_empty(), "not at once");
        stage.pass(crate::limits::DISK_TRIAL_MS);
        stage.tick();
        stage.tick();
        let tasks = stage.take_demotions();
        assert_eq!(tasks.len(), tried, "{health:?}");
        for task in tasks {
            assert_eq!(stage.end_demotion(&task, code(Status::WriteFail), 0), 0);
        }
        stage.tick();
        assert!(stage.take_demotions().is_empty(), "the pause begins again");
    }
}

#[test]
fn what_a_disk_is_to_make_void_is_not_given_to_it_again_before_it_has() {
    let mut stage = Stage::with_disk(offload(), 3);
    for key in ["a", "b", "c"] {
        assert_eq!(stage.put(key), 0);
    }
    stage.tick();
    let before = stage.take_demotions();
    say(&mut stage, DiskHealth::Hung);
    say(&mut stage, DiskHealth::Healthy);
    stage.tick();
    let again = stage.take_demotions();
    assert!(again.iter().all(|task| before.iter().all(|it| it.key != task.key)));
    let void = stage.shard.tombstones(OWNER, DISK, 100).unwrap();
    assert_eq!(void.len(), before.len());
}
