//! Facts about objects on disks: copied before they are evicted, read, removed, lost, announced.

use perigee_schemas::disk_address::DiskAddress;

use super::*;
use perigee_schemas::SegmentKind;

/// The owner of segment 0 and of its disk.
pub(super) const OWNER: u128 = 100;
pub(super) const DISK: u32 = 9;
pub(super) const DISK_ID: u128 = 900;

pub(super) fn address(sequence: u32) -> u64 {
    DiskAddress { sequence, offset: 4096 }.pack()
}

pub(super) fn offload() -> OffloadSettings {
    OffloadSettings {
        on_evict: true,
        force_evict: false,
        queue_limit: 100,
        cap_ratio: 1.0,
        drive_writes_per_day: 0.0,
    }
}

pub(super) fn with_offload(offload: OffloadSettings) -> ShardSettings {
    ShardSettings { offload: Some(offload), ..settings() }
}

impl Stage {
    /// A segment with room for so many objects, and a disk of its owner.
    pub(super) fn with_disk(offload: OffloadSettings, objects: u64) -> Self {
        let mut stage = Self::with(with_offload(offload), &[objects]);
        stage.mount_disk(DISK);
        stage
    }

    pub(super) fn mount_disk(&mut self, index: u32) {
        let spec =
            SegmentSpec { kind: SegmentKind::Disk, ..SegmentSpec::bare(DISK_ID, OWNER, 1 << 40) };
        self.mount(spec, index);
    }

    pub(super) fn apply(&mut self, event: &SegmentEvent) {
        self.shard.apply(self.now_ms, event);
        self.shard.check();
    }

    pub(super) fn take_demotions(&mut self) -> Vec<DemotionTask> {
        let tasks = self.shard.take_demotions(self.now_ms, OWNER, 100);
        self.shard.check();
        tasks
    }

    pub(super) fn end_demotion(&mut self, task: &DemotionTask, status: i32, address: u64) -> i32 {
        let ended = EndedDemotions {
            client: OWNER,
            keys: &[&task.key],
            generations: &[task.source.generation],
            status: &[status],
            addresses: &[address],
        };
        self.shard.end_demotions(self.now_ms, &ended, &mut self.status);
        self.shard.check();
        self.status[0]
    }

    /// Puts keys into a full segment and writes all that is to be written, in segment 1 of the log.
    pub(super) fn put_on_disk(&mut self, keys: &[&str]) {
        for key in keys {
            assert_eq!(self.put(key), 0);
        }
        self.tick();
        for task in self.take_demotions() {
            assert_eq!(self.end_demotion(&task, 0, address(1)), 0);
        }
    }

    /// The owner makes the next move that waits for it.
    pub(super) fn end_next_move(&mut self) {
        let task = self.shard.take_moves(self.now_ms, OWNER, 1).remove(0);
        let ended = EndedMoves {
            client: OWNER,
            keys: &[&task.key],
            generations: &[task.target.generation],
            status: &[0],
            in_flight: &[false],
        };
        self.shard.end_moves(self.now_ms, &ended, &mut self.status);
        self.shard.check();
    }

    /// Numbers of the segments where a key lies.
    pub(super) fn lies_in(&self, key: &str) -> Vec<u32> {
        self.peek(key).iter().map(|location| location.segment).collect()
    }

    pub(super) fn announce(&mut self, key: &str, generation: u64, is_last: bool) -> i32 {
        let disk = self.shard.space.disks()[0];
        self.announce_at(key, generation, (disk, 1), is_last)
    }

    /// Announces a copy on a disk, in a segment of its log.
    pub(super) fn announce_at(
        &mut self,
        key: &str,
        generation: u64,
        (disk, sequence): (u32, u32),
        is_last: bool,
    ) -> i32 {
        let copy = AnnouncedCopy {
            key: key.as_bytes(),
            group: "",
            generation,
            payload_bytes: PAYLOAD_BYTES,
            checksum: 1,
            writer: WRITER,
            address: address(sequence),
        };
        let (shard, now_ms) = (&mut self.shard, self.now_ms);
        shard.announce_copies(now_ms, OWNER, disk, &[copy], is_last, &mut self.status);
        self.shard.check();
        self.status[0]
    }

    pub(super) fn tombstones(&self) -> Vec<(u64, u64)> {
        let waiting = self.shard.tombstones(OWNER, self.shard.space.disks()[0], 100).unwrap();
        waiting.iter().map(|it| (it.hash, it.generation)).collect()
    }
}

pub(super) fn hash(key: &str) -> u64 {
    crate::key::hash_key(key.as_bytes())
}

#[test]
fn what_comes_next_is_copied_first_and_then_goes_at_once() {
    let mut stage = Stage::with_disk(offload(), 10);
    let keys: Vec<String> = (0..10).map(|n| format!("{n}")).collect();
    for key in &keys {
        stage.put(key);
    }
    stage.tick();
    assert!(stage.shard.has_disk_work(OWNER) && !stage.shard.has_disk_work(OWNER + 1));
    let tasks = stage.take_demotions();
    assert_eq!(&*tasks[0].key, b"0", "the oldest first");
    assert_eq!((tasks[0].disk, tasks[0].checksum), (DISK, 1));
    assert_eq!(tasks[0].source, stage.peek("0")[0]);
    for task in &tasks {
        assert_eq!(stage.end_demotion(task, 0, address(1)), 0);
    }
    assert_eq!(stage.lies_in("0"), [0, DISK], "memory comes first");
    let keys_before = stage.shard.gauges().keys;
    assert_eq!(stage.put("new"), 0);
    assert_eq!(stage.lies_in("0"), [DISK], "the copy is left");
    assert_eq!(stage.shard.gauges().keys, keys_before + 1, "no key is lost");
    assert_eq!(stage.shard.counters().evicted_keys, 0);
}

#[test]
fn a_put_never_takes_what_is_being_copied_and_is_refused_until_something_has_a_copy() {
    let mut stage = Stage::with_disk(offload(), 3);
    for key in ["a", "b", "c"] {
        stage.put(key);
    }
    assert_eq!(stage.put("d"), code(Status::NoAvailableHandle));
    let tasks = stage.take_demotions();
    assert_eq!(&*tasks[0].key, b"a", "the put has begun the copy");
    assert_eq!(stage.put("d"), code(Status::NoAvailableHandle));
    stage.end_demotion(&tasks[0], 0, address(1));
    assert_eq!(stage.put("d"), 0);
    assert_eq!((stage.lies_in("a"), stage.lies_in("d")), (vec![DISK], vec![0]));
}

#[test]
fn no_more_of_a_segment_is_on_its_way_than_the_ratio_allows() {
    let half = OffloadSettings { cap_ratio: 0.5, ..offload() };
    let mut stage =
        Stage::with(ShardSettings { watermark_ratio: 0.1, ..with_offload(half) }, &[10]);
    stage.mount_disk(DISK);
    for key in 0..10 {
        stage.put(&format!("{key}"));
    }
    stage.tick();
    assert_eq!(stage.take_demotions().len(), 5);
    assert_eq!(stage.shard.gauges().demotions, 5);
}

#[test]
fn without_a_disk_eviction_is_as_ever() {
    let mut stage = Stage::with(with_offload(offload()), &[2]);
    for key in ["a", "b", "c"] {
        assert_eq!(stage.put(key), 0);
    }
    assert!(!stage.holds("a") && stage.take_demotions().is_empty());
    let full = SegmentEvent::Usable { index: DISK, bytes: 0 };
    stage.mount_disk(DISK);
    stage.apply(&full);
    assert_eq!(stage.put("d"), 0, "a full disk keeps nothing from going");
}

#[test]
fn a_failed_copy_lets_the_object_go_without() {
    let mut stage = Stage::with_disk(offload(), 2);
    stage.put("a");
    stage.put("b");
    stage.put("c");
    let tasks = stage.take_demotions();
    assert_eq!(stage.end_demotion(&tasks[0], code(Status::WriteFail), 0), 0);
    assert_eq!(stage.put("c"), 0);
    assert!(!stage.holds("a"));
    assert!(stage.tombstones().is_empty(), "its owner has said that nothing was written");
}

#[test]
fn replicas_in_a_segment_that_is_gone_are_no_copies_and_follow_the_one_that_is_left() {
    let mut stage = Stage::with(with_offload(offload()), &[2, 2]);
    stage.mount_disk(DISK);
    assert_eq!(stage.put_with("a", &PutConfig { replica_num: 2, ..PutConfig::default() }), 0);
    stage.apply(&SegmentEvent::Unmounted { index: 1 });
    for key in ["b", "c"] {
        stage.put(key);
    }
    let task = stage.take_demotions().remove(0);
    assert_eq!(&*task.key, b"a");
    assert_eq!(stage.end_demotion(&task, code(Status::WriteFail), 0), 0);
    assert_eq!(stage.put("c"), 0);
}

#[test]
fn what_is_touched_while_it_is_copied_goes_in_its_turn() {
    let mut stage = Stage::with_disk(offload(), 3);
    for key in ["a", "b", "c"] {
        stage.put(key);
    }
    stage.put("d");
    let tasks = stage.take_demotions();
    assert_eq!(stage.read("a"), 0);
    stage.end_demotion(&tasks[0], 0, address(1));
    stage.put("d");
    let next = stage.take_demotions();
    assert_eq!(&*next[0].key, b"b");
    assert_eq!(stage.lies_in("a"), [0, DISK], "it was read");
}

#[test]
fn a_copy_that_is_not_taken_or_never_ends_is_given_up() {
    let mut stage = Stage::with_disk(offload(), 2);
    for key in ["a", "b", "c"] {
        stage.put(key);
    }
    assert_eq!(stage.shard.gauges().demotions, 1);
    stage.pass(crate::limits::DEMOTION_WAIT_MS);
    stage.tick();
    assert_eq!(stage.shard.gauges().demotions, 0);
    assert!(stage.tombstones().is_empty(), "nothing was written");
    assert_eq!(stage.put("c"), 0, "it was tried");
    stage.put("d");
    let tasks = stage.take_demotions();
    stage.pass(crate::limits::MOVE_DEADLINE_MS);
    stage.tick();
    let buried = (hash("b"), tasks[0].source.generation);
    assert_eq!(stage.tombstones(), [buried], "it may have been written");
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), code(Status::TaskNotFound));
}

#[test]
fn an_object_that_is_replaced_or_removed_while_it_is_copied_never_gets_the_copy() {
    let mut stage = Stage::with_disk(offload(), 4);
    for key in ["a", "b", "c", "d"] {
        stage.put(key);
    }
    stage.tick();
    stage.put("e");
    stage.put("e");
    let tasks = stage.take_demotions();
    assert!(!tasks.is_empty());
    let (key, generation) = (tasks[0].key.clone(), tasks[0].source.generation);
    assert_eq!(stage.remove(std::str::from_utf8(&key).unwrap(), true), 0);
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), code(Status::TaskNotFound));
    assert_eq!(stage.tombstones(), [(hash("a"), generation)]);
    stage.put("a");
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), code(Status::TaskNotFound));
    assert_eq!(stage.lies_in("a"), [0]);
}

#[test]
fn the_end_of_an_earlier_versions_copy_ends_no_later_one() {
    let mut stage = Stage::with_disk(OffloadSettings { on_evict: false, ..offload() }, 4);
    stage.put("a");
    let before = stage.take_demotions().remove(0);
    stage.remove("a", true);
    stage.put("a");
    let later = stage.take_demotions().remove(0);
    assert_eq!(stage.end_demotion(&before, 0, address(1)), code(Status::TaskNotFound));
    assert_eq!(stage.lies_in("a"), [0]);
    assert_eq!(stage.end_demotion(&later, 0, address(1)), 0);
    assert_eq!(stage.lies_in("a"), [0, DISK]);
}

#[test]
fn an_end_may_be_reported_twice() {
    let mut stage = Stage::with_disk(offload(), 2);
    for key in ["a", "b", "c"] {
        stage.put(key);
    }
    let tasks = stage.take_demotions();
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), 0);
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), 0);
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(2)), code(Status::TaskNotFound));
}

#[test]
fn what_is_on_a_disk_alone_exists_has_a_size_and_is_leased() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put_on_disk(&["a"]);
    assert_eq!(stage.put("b"), 0);
    assert_eq!((stage.lies_in("a"), stage.exist("a")), (vec![DISK], 1));
    assert_eq!(stage.shard.size(b"a"), Ok(PAYLOAD_BYTES));
    assert_eq!(stage.start("a"), code(Status::ObjectAlreadyExists));
    assert_eq!(stage.get("a"), 0);
    let location = stage.replicas.locations[0];
    assert_eq!((location.segment, location.offset), (DISK, address(1)));
    assert_eq!(stage.remove("a", false), code(Status::ObjectHasLease));
    let lease = stage.given_back();
    stage.shard.give_back(stage.now_ms, &[lease]);
    let counters = stage.shard.counters();
    assert_eq!((counters.disk_hits, counters.cache_hits), (1, 0));
    let gauges = stage.shard.gauges();
    assert_eq!((gauges.disk_copies, gauges.disk_bytes), (1, PAYLOAD_BYTES));
    assert_eq!((gauges.capacity_bytes, gauges.keys), (EXTENT_BYTES, 2));
}

#[test]
fn a_removed_copy_is_reported_to_its_owner_until_that_confirms() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put_on_disk(&["a"]);
    let generation = stage.generation("a");
    stage.put("b");
    assert_eq!(stage.remove("a", true), 0);
    assert!(!stage.holds("a") && stage.shard.has_disk_work(OWNER));
    assert_eq!(stage.tombstones(), [(hash("a"), generation)]);
    let waiting = stage.shard.tombstones(OWNER, DISK, 1).unwrap();
    let numbers = [waiting[0].number, 77];
    stage.shard.confirm_tombstones(stage.now_ms, OWNER + 1, DISK, &numbers);
    assert_eq!(stage.tombstones().len(), 1, "another client's word counts nothing");
    stage.shard.confirm_tombstones(stage.now_ms, OWNER, DISK, &numbers);
    assert!(stage.tombstones().is_empty());
    assert_eq!(stage.shard.tombstones(OWNER + 1, DISK, 1), Err(Status::SegmentNotFound));
}

#[test]
fn an_upsert_makes_the_copy_void() {
    let mut stage = Stage::with_disk(offload(), 2);
    stage.put_on_disk(&["a", "b"]);
    let generation = stage.generation("a");
    assert_eq!(stage.lies_in("a"), [0, DISK]);
    assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &PutConfig::default(), true), 0);
    assert_eq!(stage.end_as(WRITER, "a", 2), 0);
    assert_eq!(stage.lies_in("a"), [0]);
    assert_eq!(stage.tombstones(), [(hash("a"), generation)]);
}

#[test]
fn copies_in_recycled_segments_are_gone_at_once_and_forgotten_later() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put_on_disk(&["a"]);
    stage.put("b");
    stage.apply(&SegmentEvent::Recycled { index: DISK, oldest: 2 });
    assert_eq!((stage.exist("a"), stage.lies_in("a")), (0, vec![]));
    assert_eq!(stage.shard.size(b"a"), Err(Status::ObjectNotFound));
    stage.tick();
    assert_eq!((stage.shard.gauges().keys, stage.shard.gauges().disk_copies), (1, 0));
    assert!(stage.tombstones().is_empty(), "the log has forgotten it too");
    stage.apply(&SegmentEvent::Recycled { index: DISK, oldest: 1 });
    let tasks = stage.take_demotions();
    let ended = stage.end_demotion(&tasks[0], 0, address(1));
    assert_eq!(ended, code(Status::TaskNotFound), "numbers only grow");
}

#[test]
fn a_clean_object_whose_place_was_recycled_is_copied_again() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put_on_disk(&["a"]);
    stage.apply(&SegmentEvent::Recycled { index: DISK, oldest: 2 });
    stage.read("a");
    stage.pass(LEASE_MS);
    assert_eq!(stage.put("b"), code(Status::NoAvailableHandle));
    let tasks = stage.take_demotions();
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(2)), 0);
    assert_eq!(stage.peek("a")[1].offset, address(2));
}

#[test]
fn with_its_disk_an_object_goes_unless_it_is_in_memory() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put_on_disk(&["a"]);
    stage.put("b");
    stage.tick();
    let task = stage.take_demotions().remove(0);
    stage.end_demotion(&task, 0, address(1));
    assert_eq!((stage.lies_in("a"), stage.lies_in("b")), (vec![DISK], vec![0, DISK]));
    stage.apply(&SegmentEvent::Unmounted { index: DISK });
    assert!(!stage.holds("a"));
    assert_eq!(stage.lies_in("b"), [0]);
    stage.tick();
    assert_eq!(stage.shard.gauges().keys, 1);
}

#[test]
fn a_disk_that_goes_ends_the_copies_to_it() {
    let mut stage = Stage::with_disk(offload(), 2);
    for key in ["a", "b", "c"] {
        stage.put(key);
    }
    let tasks = stage.take_demotions();
    stage.apply(&SegmentEvent::Unmounted { index: DISK });
    assert_eq!(stage.shard.gauges().demotions, 0);
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), code(Status::TaskNotFound));
    assert_eq!(stage.put("c"), 0, "no disk, no copy");
}

#[test]
fn strangers_announce_and_end_nothing() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put("a");
    stage.put("b");
    let task = stage.take_demotions().remove(0);
    let ended = EndedDemotions {
        client: OWNER + 1,
        keys: &[&task.key],
        generations: &[task.source.generation],
        status: &[0],
        addresses: &[address(1)],
    };
    stage.shard.end_demotions(stage.now_ms, &ended, &mut stage.status);
    assert_eq!(stage.status, [code(Status::IllegalClient)]);
    let short = EndedDemotions { addresses: &[], ..ended };
    stage.shard.end_demotions(stage.now_ms, &short, &mut stage.status);
    assert_eq!(stage.status, [code(Status::InvalidParams)]);
    stage.shard.announce_copies(0, OWNER + 1, DISK, &[], true, &mut stage.status);
    assert!(stage.shard.take_demotions(stage.now_ms, OWNER + 1, 9).is_empty());
}

#[test]
fn a_group_is_copied_whole_before_it_goes() {
    let mut stage = Stage::with_disk(offload(), 4);
    for key in ["a", "b", "c"] {
        assert_eq!(stage.put_in_group(key, "group"), 0);
    }
    stage.put("z");
    assert_eq!(stage.put("new"), code(Status::NoAvailableHandle));
    let tasks = stage.take_demotions();
    assert!(tasks.iter().take(3).all(|task| &*task.group == "group"));
    stage.end_demotion(&tasks[0], 0, address(1));
    assert_eq!(stage.put("new"), code(Status::NoAvailableHandle), "two are on their way");
    for task in &tasks[1..] {
        stage.end_demotion(task, 0, address(1));
    }
    assert_eq!(stage.put("new"), 0);
    for key in ["a", "b", "c"] {
        assert_eq!(stage.lies_in(key), [DISK], "{key}");
    }
}

#[test]
fn a_disk_takes_no_puts_and_is_no_segment_of_memory() {
    let mut stage = Stage::with(with_offload(offload()), &[]);
    stage.mount_disk(DISK);
    assert_eq!(stage.put("a"), code(Status::NoAvailableHandle));
    assert_eq!(stage.shard.segment_gauges().count(), 0);
    assert!(stage.shard.large_enough(1).is_empty());
    stage.apply(&SegmentEvent::Draining { index: DISK });
    stage.apply(&SegmentEvent::Resumed { index: DISK });
    assert_eq!(stage.shard.space.disks(), [DISK]);
}

#[test]
fn what_is_being_replaced_is_saved_too_for_its_writer_may_never_end() {
    let mut stage = Stage::with_disk(offload(), 4);
    for key in ["a", "b", "c"] {
        stage.put(key);
    }
    let config = PutConfig::default();
    assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &config, true), 0);
    for key in 0..8 {
        stage.tick();
        for task in stage.take_demotions() {
            stage.end_demotion(&task, 0, address(1));
        }
        stage.put(&format!("{key}"));
    }
    assert_eq!(stage.revoke(WRITER, "a"), 0);
    assert!(stage.holds("a"), "it was acknowledged, and its successor was not");
}
