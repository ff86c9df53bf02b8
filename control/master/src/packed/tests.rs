//! The packed records against a map of what they should be.

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use super::*;
use crate::policy::ObjectKind;

const DISKS: u32 = 3;

#[derive(Debug, Clone)]
enum Op {
    Add {
        disk: u32,
        sequence: u32,
        key: usize,
    },
    Remove(usize),
    Touch(usize),
    /// The log of a disk has moved on.
    Forget {
        disk: u32,
        sequence: u32,
        limit: usize,
    },
    /// A disk is gone.
    Lose(u32),
    Clean,
}

fn op() -> impl Strategy<Value = Op> {
    let key = prop_oneof![4 => 1_usize..60, 1 => 1_000_usize..9_000];
    prop_oneof![
        12 => (0..DISKS, 0_u32..8, key)
            .prop_map(|(disk, sequence, key)| Op::Add { disk, sequence, key }),
        5 => any::<usize>().prop_map(Op::Remove),
        1 => any::<usize>().prop_map(Op::Touch),
        1 => (0..DISKS, 0_u32..9, 1_usize..5)
            .prop_map(|(disk, sequence, limit)| Op::Forget { disk, sequence, limit }),
        1 => (0..DISKS * 4).prop_map(Op::Lose),
        1 => Just(Op::Clean),
    ]
}

fn copy(disk: u32, sequence: u32, number: u64) -> DiskCopy {
    DiskCopy {
        disk,
        address: u64::from(sequence) << 32 | number,
        generation: u64::MAX - number,
        payload_bytes: number + 1,
        checksum: !number as u32,
        writer: u128::from(number % 5),
        stamp: number,
        is_probed: false,
        kind: ObjectKind::at(number as usize % 16),
        is_hit: number.is_multiple_of(3),
        term: number as u8,
    }
}

#[derive(Default)]
struct Model {
    known: BTreeMap<u32, (Vec<u8>, DiskCopy)>,
    added: u64,
}

impl Model {
    fn play(&mut self, packed: &mut PackedObjects, op: &Op) {
        match *op {
            Op::Add { disk, sequence, key } => {
                self.added += 1;
                let (key, copy) = (vec![self.added as u8; key], copy(disk, sequence, self.added));
                let place = packed.add(&key, &copy).unwrap();
                assert!(self.known.insert(place, (key, copy)).is_none(), "{place} was free");
            }
            Op::Remove(at) => {
                let place = self.pick(at);
                place.into_iter().for_each(|place| self.remove(packed, place));
            }
            Op::Touch(at) => {
                if let Some(place) = self.pick(at) {
                    packed.touch(place, 1 << 40);
                    let (_, copy) = self.known.get_mut(&place).unwrap();
                    (copy.stamp, copy.is_probed) = (1 << 40, true);
                }
            }
            Op::Forget { disk, sequence, limit } => self.forget(packed, disk, sequence, limit),
            Op::Lose(disk) => {
                for place in packed.some_of(disk, usize::MAX) {
                    assert_eq!(packed.disk(place), disk);
                    self.remove(packed, place);
                }
            }
            Op::Clean => {
                let known = &mut self.known;
                let mut moved = Vec::new();
                packed.clean(|key, before, after| moved.push((key.to_vec(), before, after)));
                let there: Vec<_> =
                    moved.iter().map(|(_, before, _)| known.remove(before).unwrap()).collect();
                let old: BTreeSet<u32> = moved.iter().map(|(_, before, _)| *before).collect();
                for ((key, _, after), record) in moved.into_iter().zip(there) {
                    assert!(!old.contains(&after), "no new place is another's old one");
                    assert_eq!(key, record.0);
                    known.insert(after, record);
                }
            }
        }
    }

    fn pick(&self, at: usize) -> Option<u32> {
        self.known.keys().nth(at.checked_rem(self.known.len())?).copied()
    }

    fn remove(&mut self, packed: &mut PackedObjects, place: u32) {
        packed.remove(place);
        assert!(self.known.remove(&place).is_some(), "{place} was there");
    }

    /// All of a disk that lie below a segment of its log are found, a few at a time.
    fn forget(&mut self, packed: &mut PackedObjects, disk: u32, sequence: u32, limit: usize) {
        loop {
            let old = packed.before(disk, sequence, limit);
            assert!(old.len() <= limit);
            if old.is_empty() {
                break;
            }
            for place in old {
                let (_, copy) = &self.known[&place];
                assert!(copy.disk == disk && copy.address >> 32 < u64::from(sequence));
                self.remove(packed, place);
            }
            packed.check();
        }
        let is_old =
            |copy: &DiskCopy| copy.disk == disk && copy.address >> 32 < u64::from(sequence);
        assert!(self.known.values().all(|(_, copy)| !is_old(copy)), "none is left out");
    }

    fn check(&self, packed: &PackedObjects) {
        packed.check();
        assert_eq!(packed.len(), self.known.len());
        for (place, (key, copy)) in &self.known {
            assert_eq!((packed.get(*place).key(), packed.copy(*place)), (&key[..], *copy));
        }
        let mut places: Vec<u32> = packed.iter().map(|(place, _)| place).collect();
        places.sort_unstable();
        assert!(places.iter().eq(self.known.keys()));
        for disk in 0..DISKS {
            let of_disk = self.known.values().filter(|(_, copy)| copy.disk == disk).count();
            assert_eq!(packed.count_in(disk), of_disk);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_record_is_what_was_packed_until_it_is_removed(
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let (mut packed, mut model) = (PackedObjects::new(), Model::default());
        for op in &ops {
            model.play(&mut packed, op);
            model.check(&packed);
        }
    }
}

#[test]
fn holes_are_at_most_an_eighth_once_chunks_are_cleaned() {
    let mut packed = PackedObjects::new();
    let mut places: BTreeSet<u32> = BTreeSet::new();
    for number in 0..20_000 {
        places.insert(packed.add(&[7; 40], &copy(number as u32 % 2, 1, number)).unwrap());
    }
    let removed: Vec<u32> = places.iter().copied().filter(|place| place % 3 == 0).collect();
    for place in removed {
        packed.remove(place);
        places.remove(&place);
    }
    let used_bytes = packed.used_bytes();
    let mut moved = BTreeMap::new();
    while packed.clean(|_, before, after| assert!(moved.insert(before, after).is_none())).is_some()
    {
        for (before, after) in std::mem::take(&mut moved) {
            assert!(places.remove(&before) && places.insert(after));
        }
    }
    packed.check();
    let kept_bytes = packed.len() * 76;
    assert!(packed.used_bytes() < used_bytes && packed.used_bytes() <= kept_bytes * 8 / 7 + 1);
    assert!(packed.iter().map(|(place, _)| place).eq(places));
}

#[test]
fn what_is_too_long_for_a_record_is_not_packed() {
    let mut packed = PackedObjects::new();
    let plain = copy(1, 1, 1);
    let long = DiskCopy { payload_bytes: 1 << 32, ..plain };
    let late = DiskCopy { stamp: 1 << 48, ..plain };
    assert_eq!((packed.add(b"k", &long), packed.add(b"k", &late)), (None, None));
    assert_eq!(packed.add(&[0; 1 << 16], &plain), None);
    packed.check();
    let most = DiskCopy { payload_bytes: u64::from(u32::MAX), stamp: (1 << 48) - 1, ..plain };
    let place = packed.add(b"k", &most).unwrap();
    assert_eq!(packed.copy(place), most);
}

#[test]
fn a_record_has_36_bytes_beside_its_key() {
    let mut packed = PackedObjects::new();
    packed.add(&[0; 40], &copy(1, 1, 1)).unwrap();
    assert_eq!((packed.used_bytes(), record::HEAD_BYTES), (76, 36));
}
