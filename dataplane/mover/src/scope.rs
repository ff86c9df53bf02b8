//! What the pieces of a request are named by. Invariant: a request has one scope for all of its
//! pieces.

use perigee_schemas::Identity;

/// What the pieces of a request are named by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Addresses in buffers that the owner has registered in its present run.
    Registered,
    /// Offsets in this segment.
    Segment(Identity),
}

impl Scope {
    /// The segment as it is written: 0 stands for none.
    pub(crate) fn segment(self) -> Identity {
        match self {
            Scope::Registered => Identity(0),
            Scope::Segment(segment) => segment,
        }
    }
}
