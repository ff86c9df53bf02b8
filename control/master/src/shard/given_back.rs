//! Read leases that come back before their time. Invariant: a lease is named by what was read under
//! it.

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
    /// The shard that granted the lease, if the name is one.
    pub fn shard(&self) -> Option<usize> {
        (self.lease >> SHARD_BIT).checked_sub(1).map(|index| index as usize)
    }

    pub(super) fn object(&self) -> u32 {
        self.lease as u32
    }

    pub(super) fn term(&self) -> u8 {
        (self.lease >> TERM_BIT) as u8
    }
}

/// A name of a lease is the object in the lowest bits, the term of its lease above, and one more
/// than the shard on top.
pub(crate) const TERM_BIT: u32 = 32;

pub(crate) const SHARD_BIT: u32 = TERM_BIT + u8::BITS;
