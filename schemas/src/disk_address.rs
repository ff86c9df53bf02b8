//! Where an object lies on a disk: in which segment of the disk's log, and how far into it.
//! Invariant: a log never uses the number of a segment twice, so an address never names other
//! bytes than those it was made for.

/// Place of an object in the log of a disk. In messages it stands where the offset of a replica in
/// memory does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskAddress {
    /// Number of the log's segment, counted from the first one there ever was.
    pub sequence: u32,
    /// Offset in bytes from the start of that segment.
    pub offset: u32,
}

impl DiskAddress {
    /// The address in one number; addresses and their numbers have the same order.
    pub const fn pack(self) -> u64 {
        (self.sequence as u64) << 32 | self.offset as u64
    }

    /// The address that `pack` made this number of.
    pub const fn unpack(packed: u64) -> Self {
        Self { sequence: (packed >> 32) as u32, offset: packed as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_what_it_was_packed_from_and_keeps_its_order() {
        let last = DiskAddress { sequence: 7, offset: u32::MAX };
        let next = DiskAddress { sequence: 8, offset: 0 };
        for address in [last, next] {
            assert_eq!(DiskAddress::unpack(address.pack()), address);
        }
        assert!(last < next && last.pack() < next.pack());
    }
}
