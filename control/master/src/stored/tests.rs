//! Facts about what is stored, one test each, on a segment of memory and a disk.
//! Invariant: after every step the records agree with each other.

use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;

use crate::group::GroupLedger;
use crate::key::hash_key;
use crate::list_name::{LeasePhase, ListName};
use crate::object::Flags;
use crate::settings::ShardSettings;
use crate::slab::NONE;
use crate::tenant::TenantLane;
use crate::touch::Touch;

use super::StoredObjects;

pub(crate) const MEMORY: u32 = 0;
pub(crate) const DISK: u32 = 1;
pub(crate) const PAYLOAD_BYTES: u64 = 1000;
pub(crate) const LEASE_MS: u64 = 100;

pub(crate) fn stored() -> StoredObjects {
    let settings = ShardSettings { lease_ttl_ms: LEASE_MS, ..ShardSettings::default() };
    let mut stored = StoredObjects::new(&settings, &GroupLedger::new(1));
    [MEMORY, DISK].into_iter().for_each(|segment| stored.replicas.open(segment));
    stored.clock.begin_call(1_000);
    stored
}

/// An object with one replica in memory.
pub(crate) fn add(stored: &mut StoredObjects, key: &str, group: &str) -> u32 {
    let object = stored.insert(key.as_bytes(), hash_key(key.as_bytes()), group);
    let bytes = extent_bytes(PAYLOAD_BYTES);
    let extent = Extent::new(u64::from(object) * bytes, bytes);
    let id = stored.replicas.make(TenantLane::shared(MEMORY), extent, PAYLOAD_BYTES);
    link(stored, object, id);
    object
}

/// An object that lies on a disk alone.
pub(crate) fn add_on_disk(stored: &mut StoredObjects, key: &str) -> u32 {
    let object = stored.insert(key.as_bytes(), hash_key(key.as_bytes()), "");
    let id = stored.replicas.adopt(TenantLane::shared(DISK), 1 << 32 | 64, PAYLOAD_BYTES, 9);
    stored.replicas.relink(id, ListName::OnDisk);
    link(stored, object, id);
    object
}

pub(crate) fn link(stored: &mut StoredObjects, object: u32, id: u32) {
    stored.replicas.assign(id, object);
    stored.replicas.put_before(id, stored.keys[object].first);
    stored.keys[object].first = id;
    stored.keys[object].stamp = stored.clock.touch();
    stored.refresh_blocking(object);
    let list = stored.list_of(object);
    stored.relink(object, list);
    stored.note_disk_only(object);
    stored.check();
}

fn phase_of(stored: &StoredObjects, object: u32) -> Option<LeasePhase> {
    match stored.replicas[stored.keys[object].first].list() {
        ListName::Evictable(_, phase) => Some(phase),
        _ => None,
    }
}

#[test]
fn a_read_ends_with_its_last_reader() {
    let mut stored = stored();
    let object = add(&mut stored, "a", "");
    let leases = [(); 2].map(|()| stored.touch(object, Touch::Read));
    assert_eq!(leases[0], leases[1], "two readers of one term");
    let term = stored.keys[object].term;
    stored.end_read(object, term);
    stored.check();
    assert_eq!(phase_of(&stored, object), Some(LeasePhase::Read), "one still reads");
    stored.end_read(object, term);
    stored.check();
    assert_eq!(phase_of(&stored, object), Some(LeasePhase::Free));
}

#[test]
fn one_member_holds_its_whole_group() {
    let mut stored = stored();
    let (pinned, other) = (add(&mut stored, "a", "g"), add(&mut stored, "b", "g"));
    let alone = add(&mut stored, "c", "");
    stored.keys[pinned].flags.set(Flags::HARD_PIN, true);
    stored.refresh_blocking(pinned);
    stored.check();
    assert_eq!(stored.list_of(other), ListName::Held);
    assert_eq!(phase_of(&stored, alone), Some(LeasePhase::Free));
    stored.keys[pinned].flags.set(Flags::HARD_PIN, false);
    stored.refresh_blocking(pinned);
    stored.check();
    assert_ne!(stored.list_of(other), ListName::Held);
}

#[test]
fn a_read_of_one_member_is_a_read_of_all() {
    let mut stored = stored();
    let (read, other) = (add(&mut stored, "a", "g"), add(&mut stored, "b", "g"));
    stored.touch(read, Touch::Read);
    stored.check();
    let end_ms = |object: u32| stored.groups.touched(&stored.keys[object]).read_end_ms;
    assert_eq!([end_ms(read), end_ms(other)], [1_000 + LEASE_MS; 2]);
}

#[test]
fn what_is_packed_comes_back_as_it_was() {
    let mut stored = stored();
    let object = add_on_disk(&mut stored, "a");
    stored.keys[object].checksum = 77;
    assert!(stored.is_to_be_packed(object) && stored.pack(object));
    stored.check();
    assert_eq!((stored.keys.packed().len(), stored.replicas.len()), (1, 0));
    let object = stored.find(b"a").unwrap();
    stored.check();
    let copy = &stored.replicas[stored.copy_of(object).unwrap()];
    assert_eq!((copy.generation, copy.payload_bytes), (9, PAYLOAD_BYTES));
    assert_eq!(stored.keys[object].checksum, 77);
    assert!(stored.keys.packed().len() == 0);
}

#[test]
fn what_was_made_for_heat_takes_the_place_of_what_is_lost() {
    let mut stored = stored();
    let object = add(&mut stored, "a", "");
    let lost = stored.keys[object].first;
    let extent = Extent::new(1 << 20, extent_bytes(PAYLOAD_BYTES));
    let extra = stored.replicas.make(TenantLane::shared(MEMORY), extent, PAYLOAD_BYTES);
    stored.replicas.assign(extra, object);
    stored.replicas.put_behind(extra, lost);
    stored.enlist_extra(extra);
    stored.check();
    assert_eq!(stored.extras, 1);
    stored.keys[object].first = stored.replicas.unchain(lost, lost);
    stored.remove_replica(lost);
    stored.adopt_extra(object);
    stored.check();
    assert_eq!((stored.extras, phase_of(&stored, object)), (0, Some(LeasePhase::Free)));
}

#[test]
fn a_group_goes_with_its_last_member() {
    let mut stored = stored();
    let object = add(&mut stored, "a", "g");
    let id = std::mem::replace(&mut stored.keys[object].first, NONE);
    stored.remove_replica(id);
    stored.remove(object);
    stored.check();
    assert_eq!(stored.groups.find("g"), NONE);
}
