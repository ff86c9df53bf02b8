//! What a consumer of key events knows is what the shard has.

use std::collections::{BTreeMap, BTreeSet};

use super::demotion::*;
use super::*;
use crate::event_queue::{KeyEventQueue, WaitingEvents};
use crate::key_event::{KeyChange, Medium};
use crate::settings::PromotionSettings;
use crate::slab::NONE;

type SizeAndGroup = (u64, Option<Box<[u8]>>);

/// Follows the events of a shard: size and group of each key, in each medium, that was stored and
/// not removed; and which keys those are by the last event of each, whatever its medium.
pub(super) struct Consumer {
    queue: KeyEventQueue,
    known: BTreeMap<(Box<[u8]>, Medium), SizeAndGroup>,
    keys: BTreeSet<Box<[u8]>>,
}

impl Consumer {
    pub(super) fn of(shard: &mut KeyShard) -> Self {
        let queue = KeyEventQueue::new(usize::MAX, || {});
        shard.report_to(queue.clone());
        Self { queue, known: BTreeMap::new(), keys: BTreeSet::new() }
    }

    fn take(&self) -> WaitingEvents {
        let mut waiting = WaitingEvents::default();
        self.queue.take(&mut waiting);
        waiting
    }

    /// Takes the events so far. Panics unless it then knows each key with complete replicas, with
    /// its size, group and media, and no other.
    pub(super) fn catch_up(&mut self, shard: &KeyShard) {
        let waiting = self.take();
        for event in waiting.events.iter() {
            let key: Box<[u8]> = event.key.into();
            match event.change {
                KeyChange::Stored => {
                    self.keys.insert(key.clone());
                    let stored = (event.payload_bytes, event.group.map(Into::into));
                    self.known.insert((key, event.medium), stored);
                }
                KeyChange::Removed => {
                    self.keys.remove(&key);
                    let gone = self.known.remove(&(key, event.medium));
                    assert!(gone.is_some(), "what goes was there");
                }
            }
        }
        let complete = shard.stored.keys.iter().filter(|(_, object)| object.first != NONE);
        let complete =
            complete.filter(|(id, object)| !shard.stored.was_never_whole(*id, object.first));
        let there = complete.flat_map(|(id, object)| {
            let bytes = shard.stored.bytes_of_object(id, object.first);
            let group = shard.stored.groups.name(object.group);
            let group: Option<Box<[u8]>> = group.map(|name| name.as_bytes().into());
            let media = shard.stored.replicas.media(object.first);
            media.iter().map(move |medium| {
                let key: Box<[u8]> = object.key().into();
                ((key, medium), (bytes, group.clone()))
            })
        });
        let packed = shard.stored.keys.packed();
        let packed = packed.iter().map(|(place, record)| {
            let key: Box<[u8]> = record.key().into();
            ((key, Medium::Disk), (packed.copy(place).payload_bytes, None))
        });
        assert_eq!(self.known, there.chain(packed).collect());
        let known = self.known.keys().map(|(key, _)| key.clone());
        assert_eq!(self.keys, known.collect(), "by the last event of each key");
    }
}

#[test]
fn a_consumer_learns_of_puts_upserts_removals_evictions_and_lost_segments() {
    let mut stage = Stage::new(&[2, 2]);
    let mut consumer = Consumer::of(&mut stage.shard);
    stage.put_in_group("grouped", "a group");
    consumer.catch_up(&stage.shard);
    stage.put("first");
    stage.start_with("first", PAYLOAD_BYTES / 2, &PutConfig::default(), true);
    consumer.catch_up(&stage.shard);
    stage.end("first");
    stage.remove("grouped", true);
    consumer.catch_up(&stage.shard);
    for key in 0..8 {
        stage.age();
        stage.put(&format!("{key}"));
        consumer.catch_up(&stage.shard);
    }
    assert!(stage.shard.counters().evicted_keys > 0);
    let index = 0;
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index });
    stage.tick();
    consumer.catch_up(&stage.shard);
    assert!(consumer.known.len() <= 2);
}

#[test]
fn a_put_that_is_not_ended_is_not_reported() {
    let mut stage = Stage::new(&[2]);
    let mut consumer = Consumer::of(&mut stage.shard);
    stage.start("unfinished");
    stage.revoke(WRITER, "unfinished");
    assert!(consumer.take().events.is_empty());
    consumer.catch_up(&stage.shard);
}

/// The events so far: what happened, to which key, in which medium.
fn said(consumer: &Consumer) -> Vec<(KeyChange, String, Medium)> {
    let waiting = consumer.take();
    let said = waiting.events.iter();
    said.map(|it| (it.change, String::from_utf8(it.key.into()).expect("text"), it.medium)).collect()
}

#[test]
fn a_consumer_learns_which_medium_has_a_key_while_it_goes_to_disk_and_comes_back() {
    use KeyChange::{Removed, Stored};
    use Medium::{Disk, Memory};
    let promotion =
        Some(PromotionSettings { threshold: Some(1), on_exist: false, queue_limit: 100 });
    let settings = ShardSettings { promotion, ..with_offload(offload()) };
    let mut stage = Stage::with(settings, &[1]);
    stage.mount_disk(DISK);
    let consumer = Consumer::of(&mut stage.shard);
    let event = |change, key: &str, medium| (change, key.to_owned(), medium);
    stage.put_on_disk(&["a"]);
    let stored = [event(Stored, "a", Memory), event(Stored, "a", Disk)];
    assert_eq!(said(&consumer), stored);
    stage.put("b");
    // What is left is said last, for consumers that ignore media.
    let evicted =
        [event(Removed, "a", Memory), event(Stored, "a", Disk), event(Stored, "b", Memory)];
    assert_eq!(said(&consumer), evicted);
    stage.remove("b", true);
    stage.pass(10_000);
    stage.tick();
    assert_eq!(said(&consumer), [event(Removed, "b", Memory)]);
    stage.get("a");
    stage.end_next_move();
    assert_eq!(said(&consumer), [event(Stored, "a", Memory)]);
    stage.pass(10_000);
    assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &PutConfig::default(), true), 0);
    assert_eq!(stage.end("a"), 0);
    let replaced = [
        event(Removed, "a", Memory),
        event(Stored, "a", Disk),
        event(Removed, "a", Disk),
        event(Stored, "a", Memory),
    ];
    assert_eq!(said(&consumer), replaced);
    stage.tick();
    for task in stage.take_demotions() {
        assert_eq!(stage.end_demotion(&task, 0, address(2)), 0);
    }
    said(&consumer);
    stage.remove("a", true);
    assert_eq!(said(&consumer), [event(Removed, "a", Memory), event(Removed, "a", Disk)]);
}

#[test]
fn without_a_consumer_nothing_is_kept_and_the_next_one_learns_it() {
    let mut stage = Stage::new(&[2]);
    let consumer = Consumer::of(&mut stage.shard);
    consumer.queue.end();
    stage.put("unheard");
    assert!(consumer.take().events.is_empty());
    assert!(consumer.queue.begin(), "something was missed");
    stage.remove("unheard", true);
    assert_eq!(
        said(&consumer),
        [(KeyChange::Removed, "unheard".to_owned(), Medium::Memory)],
        "from then on all is reported"
    );
    assert!(!consumer.queue.begin(), "it is said once");
}
