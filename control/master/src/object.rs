//! The record of one key: its complete replicas, leases and flags.
//! Invariant: `first` chains the complete replicas; an object without any has an unfinished put.

use perigee_schemas::Status;

use crate::policy::ObjectKind;
use crate::slab::NONE;

/// At so many readers they are counted no more.
pub(crate) const READERS_MAX: u16 = (1 << KIND_SHIFT) - 1;
/// Where the kind begins, above the readers.
const KIND_SHIFT: u32 = 12;

/// Facts about an object, packed because there are millions of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u8);

impl Flags {
    /// It was read at least once, or was put again soon after an eviction.
    pub(crate) const HIT: u8 = 1;
    /// Never evicted.
    pub(crate) const HARD_PIN: u8 = 2;
    /// Evicted last; its end is kept by the soft pins.
    pub(crate) const SOFT_PIN: u8 = 4;
    /// A put or upsert of it is unfinished.
    pub(crate) const PENDING: u8 = 8;
    /// It keeps its group from being evicted.
    pub(crate) const BLOCKS_GROUP: u8 = 16;
    /// A later put was published before one with a hard pin, whose writer may still end it.
    pub(crate) const OVERTAKEN_PIN: u8 = 32;
    /// As the one before, of a put that would pin it softly.
    pub(crate) const OVERTAKEN_SOFT_PIN: u8 = 64;
    /// Its owner is copying it to a disk.
    pub(crate) const DEMOTING: u8 = 128;
    /// Either of the two pins that keep it from eviction.
    pub(crate) const PINNED: u8 = Self::HARD_PIN | Self::OVERTAKEN_PIN;
    /// All that keeps it from eviction.
    pub(crate) const HELD: u8 = Self::PINNED | Self::DEMOTING;
    /// Either of the two that let it go last.
    pub(crate) const SOFT_PINNED: u8 = Self::SOFT_PIN | Self::OVERTAKEN_SOFT_PIN;

    /// Whether it has one of some flags.
    pub(crate) fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u8, on: bool) {
        if on {
            self.0 |= flag;
        } else {
            self.0 &= !flag;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Object {
    key: Box<[u8]>,
    hash: u64,
    /// Client that finished the last put.
    pub(crate) owner: u128,
    /// A reader may hold descriptors of these bytes until then.
    pub(crate) read_end_ms: u64,
    /// A client asked whether it exists and may want to read it until then. This field and the next
    /// are the group's, if there is one.
    pub(crate) probe_end_ms: u64,
    /// When it was last touched, counted in touches.
    pub(crate) stamp: u64,
    pub(crate) checksum: u32,
    /// First complete replica, or `NONE`.
    pub(crate) first: u32,
    /// Group, or `NONE`.
    pub(crate) group: u32,
    /// Readers that hold descriptors of these bytes and have not given the lease back, and above
    /// them the kind.
    readers_and_kind: u16,
    pub(crate) flags: Flags,
    /// Number of the lease that these readers hold. The next one has another, so that what is given
    /// back late, after the lease has run out, ends no other reader's.
    pub(crate) term: u8,
}

impl Object {
    pub(crate) fn new(key: &[u8], hash: u64) -> Self {
        Self {
            key: key.into(),
            hash,
            owner: 0,
            read_end_ms: 0,
            probe_end_ms: 0,
            stamp: 0,
            checksum: 0,
            first: NONE,
            group: NONE,
            readers_and_kind: 0,
            flags: Flags::default(),
            term: 0,
        }
    }

    /// Its key, which never changes.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Hash of the key.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Readers that hold descriptors of these bytes and have not given the lease back.
    pub(crate) fn readers(&self) -> u16 {
        self.readers_and_kind & READERS_MAX
    }

    /// As many as can be counted, if it is more.
    pub(crate) fn set_readers(&mut self, readers: u16) {
        let kind = self.readers_and_kind & !READERS_MAX;
        self.readers_and_kind = kind | readers.min(READERS_MAX);
    }

    /// What tells how soon it may be asked for again.
    pub(crate) fn kind(&self) -> ObjectKind {
        ObjectKind::at(usize::from(self.readers_and_kind >> KIND_SHIFT))
    }

    pub(crate) fn set_kind(&mut self, kind: ObjectKind) {
        self.readers_and_kind = self.readers() | (kind.index() as u16) << KIND_SHIFT;
    }

    /// Grants the lease to one more reader. Who has not given back a lease that has run out is not
    /// waited for.
    pub(crate) fn grant(&mut self, now_ms: u64, end_ms: u64) {
        if self.read_end_ms <= now_ms && self.readers() > 0 {
            self.set_readers(0);
            self.term = self.term.wrapping_add(1);
        }
        self.read_end_ms = self.read_end_ms.max(end_ms);
        self.set_readers(self.readers() + 1);
    }

    /// Takes the lease back from one reader that was granted it in a term; whether it was running.
    pub(crate) fn give_back(&mut self, now_ms: u64, term: u8) -> bool {
        let readers = self.readers();
        if term != self.term || readers == 0 || readers == READERS_MAX {
            return false;
        }
        self.set_readers(readers - 1);
        let was_running = self.read_end_ms > now_ms;
        if readers == 1 {
            self.read_end_ms = 0;
        }
        was_running
    }

    /// A put that has ended may be ended again; one that was discarded in favour of other bytes may
    /// not.
    ///
    /// # Errors
    /// `InvalidWrite` for other bytes or none, `IllegalClient` for those of another client.
    pub(crate) fn end_again(&self, client: u128, checksum: u32) -> Result<(), Status> {
        if self.first == NONE {
            Err(Status::InvalidWrite)
        } else if self.owner != client {
            Err(Status::IllegalClient)
        } else if self.checksum != checksum {
            Err(Status::InvalidWrite)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_and_the_kind_do_not_touch_each_other() {
        let mut object = Object::new(b"key", 1);
        for kind in ObjectKind::all() {
            object.set_kind(kind);
            object.set_readers(0);
            (0..3).for_each(|_| object.grant(0, 10));
            assert_eq!((object.kind(), object.readers()), (kind, 3));
        }
        object.set_readers(u16::MAX);
        object.grant(0, 10);
        assert_eq!(object.readers(), READERS_MAX);
        assert!(!object.give_back(0, object.term), "so many are counted no more");
        assert_eq!(object.kind().index(), 15);
    }

    #[test]
    fn an_object_is_no_larger_than_five_words_of_sixteen_bytes() {
        assert_eq!(size_of::<Object>(), 80);
    }
}
