//! What a data port speaks. Invariant: one port speaks one of them.

/// Which protocol a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialects {
    /// Ours.
    Own,
    /// Mooncake's.
    Mooncake,
}
