//! What a consumer of key events knows is what the shard has.

use std::collections::BTreeMap;

use super::*;
use crate::key_events::{KeyChange, KeyEventQueue};
use crate::slab::NONE;

type SizeAndGroup = (u64, Option<Box<str>>);

/// Follows the events of a shard: size and group of each key that was stored and not removed.
pub(super) struct Consumer {
    queue: KeyEventQueue,
    known: BTreeMap<Box<[u8]>, SizeAndGroup>,
}

impl Consumer {
    pub(super) fn of(shard: &mut KeyShard) -> Self {
        let queue = KeyEventQueue::new(usize::MAX, || {});
        shard.report_to(queue.clone());
        Self { queue, known: BTreeMap::new() }
    }

    /// Takes the events so far. Panics unless it then knows each key with complete replicas, with
    /// its size and group, and no other.
    pub(super) fn catch_up(&mut self, shard: &KeyShard) {
        for event in self.queue.take().events {
            match event.change {
                KeyChange::Stored => {
                    self.known.insert(event.key, (event.payload_bytes, event.group));
                }
                KeyChange::Removed => {
                    assert!(self.known.remove(&event.key).is_some(), "what goes was there");
                }
            }
        }
        let complete = shard.keys.iter().filter(|(_, object)| object.first != NONE);
        let complete = complete.filter(|(id, object)| !shard.was_never_whole(*id, object.first));
        let there = complete.map(|(id, object)| {
            let bytes = shard.bytes_of_object(id, object.first);
            (object.key().into(), (bytes, shard.groups.name(object.group).map(Into::into)))
        });
        assert_eq!(self.known, there.collect());
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
    assert!(consumer.queue.take().events.is_empty());
    consumer.catch_up(&stage.shard);
}
