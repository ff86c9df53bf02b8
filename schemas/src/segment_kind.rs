//! What a segment is made of.

/// What a segment is made of, with its number in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum SegmentKind {
    /// Memory: objects are put there.
    #[default]
    Memory = 0,
    /// The log of a disk: it takes copies of what lies in its owner's memory, at places that the
    /// owner chooses.
    Disk = 1,
}

impl SegmentKind {
    /// The kind of a number in a message, if this build knows it.
    pub const fn from_wire(kind: u8) -> Option<Self> {
        match kind {
            0 => Some(Self::Memory),
            1 => Some(Self::Disk),
            _ => None,
        }
    }
}
