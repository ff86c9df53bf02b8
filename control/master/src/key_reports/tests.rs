//! Facts about reports of keys.

use crate::event_queue::{KeyEventQueue, WaitingEvents};
use crate::key_event::{KeyChange, Media, Medium};
use crate::slab::NONE;
use crate::stored::tests::{PAYLOAD_BYTES, add, add_on_disk, stored};

use super::KeyReports;

fn reports() -> (KeyReports, KeyEventQueue) {
    let queue = KeyEventQueue::new(9, || {});
    let mut reports = KeyReports::default();
    reports.open(queue.clone());
    (reports, queue)
}

fn taken(queue: &KeyEventQueue) -> Vec<(KeyChange, Medium, u64)> {
    let mut waiting = WaitingEvents::default();
    queue.take(&mut waiting);
    waiting.events.iter().map(|it| (it.change, it.medium, it.payload_bytes)).collect()
}

#[test]
fn a_value_is_reported_once_in_each_medium() {
    let ((reports, queue), mut stored) = (reports(), stored());
    let (memory, disk) = (add(&mut stored, "a", "g"), add_on_disk(&mut stored, "b"));
    reports.stored(&stored, memory, stored.keys[memory].first);
    reports.joined(&stored, disk, stored.keys[disk].first);
    let events = [Medium::Memory, Medium::Disk].map(|it| (KeyChange::Stored, it, PAYLOAD_BYTES));
    assert_eq!(taken(&queue), events);
}

#[test]
fn what_is_replaced_in_its_medium_is_not_gone_there() {
    let ((reports, queue), mut stored) = (reports(), stored());
    let object = add(&mut stored, "a", "");
    let first = stored.keys[object].first;
    reports.gone(&stored, object, first, stored.replicas.media(first));
    reports.gone(&stored, object, NONE, Media::default());
    assert!(taken(&queue).is_empty());
    reports.gone(&stored, object, first, Media::default());
    assert_eq!(taken(&queue), [(KeyChange::Removed, Medium::Memory, PAYLOAD_BYTES)]);
}

#[test]
fn the_last_replica_of_a_medium_is_reported_as_removed() {
    let ((reports, queue), mut stored) = (reports(), stored());
    let object = add(&mut stored, "a", "");
    let first = stored.keys[object].first;
    reports.left(&stored, object, first, first);
    assert!(taken(&queue).is_empty(), "another one is left in memory");
    reports.left(&stored, object, first, NONE);
    assert_eq!(taken(&queue), [(KeyChange::Removed, Medium::Memory, PAYLOAD_BYTES)]);
}
