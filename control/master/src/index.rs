//! From a key's hash to what is kept of the key: an object, or a packed record.
//! Invariant: each of them is in the index exactly while it is there, in the table that its hash
//! names.
//!
//! There are many small tables. When there are too many entries for them, one table is split, so
//! no call waits for more than one. All keys of a table lie next to each other in the order of a
//! walk (see [`place_of`]), before and after a split, so a walk needs to know nothing of the tables
//! that there were when it began.

use hashbrown::HashTable;

use crate::slab::NONE;

/// Entries of a table at which another one is split, on average over all tables. The fullest have
/// twice as many.
const ENTRIES_MEAN: usize = 600;

/// What is kept of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// Nothing.
    pub(crate) const NONE: Self = Self(NONE);
    /// The bit of packed records.
    const PACKED: u32 = 1 << 31;

    /// An object by its number.
    pub(crate) fn object(number: u32) -> Self {
        debug_assert!(number < Self::PACKED, "half of the numbers are packed records'");
        Self(number)
    }

    /// A packed record by its place.
    pub(crate) fn packed(place: u32) -> Self {
        debug_assert!(place < Self::PACKED - 1, "half of the numbers are objects', one is nothing");
        Self(place | Self::PACKED)
    }

    pub(crate) fn as_object(self) -> Option<u32> {
        (self.0 & Self::PACKED == 0).then_some(self.0)
    }

    pub(crate) fn as_packed(self) -> Option<u32> {
        (self.0 & Self::PACKED != 0 && self != Self::NONE).then_some(self.0 & !Self::PACKED)
    }
}

#[derive(Debug)]
pub(crate) struct KeyIndex {
    tables: Vec<HashTable<Slot>>,
    len: usize,
}

impl KeyIndex {
    pub(crate) fn new() -> Self {
        Self { tables: vec![HashTable::new()], len: 0 }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The entry with this hash that is the one.
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(Slot) -> bool) -> Option<Slot> {
        self.tables[self.table_of(hash)].find(hash, |slot| is_it(*slot)).copied()
    }

    /// An entry that very likely has this hash, if any has; nothing but the table is read.
    pub(crate) fn guess(&self, hash: u64) -> Option<Slot> {
        self.tables[self.table_of(hash)].find(hash, |_| true).copied()
    }

    /// Takes up an entry; `hash_of` tells the hash of each that is here.
    pub(crate) fn insert(&mut self, hash: u64, slot: Slot, hash_of: impl Fn(Slot) -> u64) {
        let table = self.table_of(hash);
        self.tables[table].insert_unique(hash, slot, |other| hash_of(*other));
        self.len += 1;
        if self.len > self.tables.len() * ENTRIES_MEAN {
            self.split(hash_of);
        }
    }

    /// Puts an entry of the same key in the place of another one.
    pub(crate) fn replace(&mut self, hash: u64, before: Slot, after: Slot) {
        let table = self.table_of(hash);
        let entry = self.tables[table].find_mut(hash, |slot| *slot == before);
        debug_assert!(entry.is_some(), "{before:?} is in the index");
        if let Some(entry) = entry {
            *entry = after;
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, slot: Slot) {
        let table = self.table_of(hash);
        let entry = self.tables[table].find_entry(hash, |other| *other == slot);
        debug_assert!(entry.is_ok(), "{slot:?} is in the index");
        if let Ok(entry) = entry {
            entry.remove();
            self.len -= 1;
        }
    }

    /// The entries of the table that a place of a walk lies in, and the last place of that table.
    pub(crate) fn around(&self, place: u64) -> (impl Iterator<Item = Slot> + '_, u64) {
        let table = self.table_of_number(place.reverse_bits());
        let bits = self.bits_of(table);
        let last = place | u64::MAX.checked_shr(bits).unwrap_or_default();
        (self.tables[table].iter().copied(), last)
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.tables.iter().flat_map(|table| table.iter().copied())
    }

    /// Panics unless each entry is in the table of its hash, and all are counted.
    pub(crate) fn check(&self, hash_of: impl Fn(Slot) -> u64) {
        assert_eq!(self.iter().count(), self.len, "all entries count");
        for (number, table) in self.tables.iter().enumerate() {
            assert!(table.iter().all(|slot| self.table_of(hash_of(*slot)) == number));
        }
    }

    fn table_of(&self, hash: u64) -> usize {
        self.table_of_number(number_of(hash))
    }

    /// Tables have the numbers that as many low bits make as there are; those that are not split
    /// yet take what belongs to a number that is not there.
    fn table_of_number(&self, number: u64) -> usize {
        let wide = self.tables.len().next_power_of_two();
        let low = number as usize & (wide - 1);
        if low < self.tables.len() { low } else { low & (wide / 2 - 1) }
    }

    /// How many bits of a hash are those of a table's number.
    fn bits_of(&self, table: usize) -> u32 {
        let count = self.tables.len();
        let half = count.next_power_of_two() / 2;
        match table >= half || table + half < count {
            true => count.next_power_of_two().ilog2(),
            false => half.ilog2(),
        }
    }

    /// Splits the table whose turn it is in two.
    fn split(&mut self, hash_of: impl Fn(Slot) -> u64) {
        let added = self.tables.len();
        let half = (added + 1).next_power_of_two() / 2;
        let whole = std::mem::take(&mut self.tables[added - half]);
        // To look at an entry is what takes time, so that is done once.
        let entries = whole.iter().map(|slot| (hash_of(*slot), *slot));
        let is_of_added = |(hash, _): &(u64, Slot)| number_of(*hash) as usize & half != 0;
        let (theirs, ours): (Vec<_>, Vec<_>) = entries.partition(is_of_added);
        for (entries, table) in [(ours, added - half), (theirs, added)] {
            let mut part = HashTable::with_capacity(entries.len());
            for (hash, slot) in entries {
                part.insert_unique(hash, slot, |other| hash_of(*other));
            }
            match table == added {
                true => self.tables.push(part),
                false => self.tables[table] = part,
            }
        }
    }
}

/// Where a hash stands in the order of walks: the bits that name tables come first, the lowest of
/// them first of all.
pub(crate) fn place_of(hash: u64) -> u64 {
    number_of(hash).reverse_bits()
}

/// The bits that name tables, lowest first: those above the ones that place an entry in its table.
/// What tells shards apart comes last of them, and the tables' tags are the highest of a hash.
fn number_of(hash: u64) -> u64 {
    hash.rotate_right(16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash_key;

    fn hash(slot: Slot) -> u64 {
        hash_key(&slot.0.to_le_bytes())
    }

    fn with(count: u32) -> KeyIndex {
        let mut index = KeyIndex::new();
        for number in 0..count {
            let slot = Slot::object(number);
            index.insert(hash(slot), slot, hash);
        }
        index.check(hash);
        index
    }

    #[test]
    fn entries_are_found_however_many_tables_there_are() {
        for count in [0, 1, 600, 601, 1_300, 5_000, 20_000] {
            let mut index = with(count);
            for number in 0..count {
                let slot = Slot::object(number);
                assert_eq!(index.find(hash(slot), |it| it == slot), Some(slot));
            }
            let none = Slot::object(count);
            assert_eq!(index.find(hash(none), |it| it == none), None);
            for number in (0..count).step_by(3) {
                index.remove(hash(Slot::object(number)), Slot::object(number));
            }
            index.check(hash);
            assert_eq!(index.len(), (count - count.div_ceil(3)) as usize);
        }
    }

    #[test]
    fn no_table_has_many_more_entries_than_others() {
        let index = with(100_000);
        let most = index.tables.iter().map(HashTable::len).max();
        assert!(most < Some(ENTRIES_MEAN * 5 / 2), "{most:?}");
    }

    #[test]
    fn a_walk_meets_each_entry_once_while_tables_are_split() {
        let mut index = with(2_000);
        let (mut met, mut place) = (Vec::new(), 0);
        loop {
            let (entries, last) = index.around(place);
            let ahead = entries.filter(|slot| place_of(hash(*slot)) >= place);
            met.extend(ahead.filter(|slot| slot.0 < 2_000));
            let Some(next) = last.checked_add(1) else {
                break;
            };
            place = next;
            for _ in 0..900 {
                let slot = Slot::object(index.len() as u32);
                index.insert(hash(slot), slot, hash);
            }
        }
        met.sort_unstable_by_key(|slot| slot.0);
        assert!(met.into_iter().eq((0..2_000).map(Slot::object)));
    }

    #[test]
    fn an_object_and_a_packed_record_do_not_look_alike() {
        assert_eq!((Slot::object(7).as_object(), Slot::object(7).as_packed()), (Some(7), None));
        assert_eq!((Slot::packed(7).as_object(), Slot::packed(7).as_packed()), (None, Some(7)));
        assert_eq!((Slot::NONE.as_object(), Slot::NONE.as_packed()), (None, None));
    }
}
