//! Read leases that come back before their time. Invariant: a lease is named by what was read under
//! it, and by the life of the master that granted it.

/// A lease that a reader gives back: its name in the answer to the lookup, and the generation of
/// the first location there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenBack {
    /// Name of the lease.
    pub lease: u64,
    /// Generation of the first location.
    pub generation: u64,
}

impl GivenBack {
    /// The shard that granted the lease, in this or an earlier life, if the name is one.
    pub fn shard(&self) -> Option<usize> {
        (self.lease >> SHARD_BIT).checked_sub(1).map(|index| index as usize)
    }

    /// The part that all names of a life of the master have in common.
    pub(crate) fn life(&self) -> u64 {
        self.lease >> LIFE_BIT & LIFE_MASK
    }

    pub(crate) fn object(&self) -> u32 {
        self.lease as u32
    }

    pub(crate) fn term(&self) -> u8 {
        (self.lease >> TERM_BIT) as u8
    }
}

/// The name of a lease on an object in one of its terms, as a shard grants it in a life of the
/// master that is known by a random number.
pub(crate) fn lease_name(shard: usize, life: u64, term: u8, object: u32) -> u64 {
    let shard = shard as u64 + 1;
    debug_assert!(shard >> (u64::BITS - SHARD_BIT) == 0, "few shards");
    shard << SHARD_BIT | life_of(life) << LIFE_BIT | u64::from(term) << TERM_BIT | u64::from(object)
}

/// What names have of a life's random number.
pub(crate) fn life_of(random: u64) -> u64 {
    random & LIFE_MASK
}

/// A name has the object in the lowest bits, above it the term of its lease and the life of the
/// master, and one more than the shard on top.
const TERM_BIT: u32 = 32;

const LIFE_BIT: u32 = TERM_BIT + u8::BITS;

const LIFE_MASK: u64 = (1 << (SHARD_BIT - LIFE_BIT)) - 1;

/// There are at most 31 shards.
const SHARD_BIT: u32 = 59;
