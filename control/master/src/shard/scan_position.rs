//! How far a walk over all keys is. Invariant: it ends after the keys that were there when it
//! began.

/// How far a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    pub(super) next: u32,
    pub(super) end: u32,
}

impl Scan {
    /// Whether nothing is left to look at.
    pub fn has_ended(&self) -> bool {
        self.next >= self.end
    }

    /// Where it is and where it ends, for [`Shard::scan_from`].
    pub fn position(&self) -> (u32, u32) {
        (self.next, self.end)
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        let id = self.next;
        self.next += u32::from(!self.has_ended());
        (id < self.end).then_some(id)
    }
}
