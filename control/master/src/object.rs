//! The record of one key: its complete replicas, leases and flags.
//! Invariant: `first` chains the complete replicas; an object without any has an unfinished put.

use crate::slab::NONE;

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
    pub(crate) key: Box<[u8]>,
    pub(crate) hash: u64,
    /// Client that finished the last put.
    pub(crate) owner: u128,
    /// A reader may hold descriptors until then. This and the next two are the group's, if there is one.
    pub(crate) read_end_ms: u64,
    /// Somebody asked whether it exists and may want to read it until then.
    pub(crate) probe_end_ms: u64,
    /// When it was last touched, counted in touches.
    pub(crate) stamp: u64,
    pub(crate) checksum: u32,
    /// First complete replica, or `NONE`.
    pub(crate) first: u32,
    /// Group, or `NONE`.
    pub(crate) group: u32,
    /// Read leases that were granted for these bytes and not given back; at its largest it counts no more.
    pub(crate) readers: u16,
    pub(crate) flags: Flags,
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
            readers: 0,
            flags: Flags::default(),
        }
    }
}
