//! A wait for an answer as the page shows it. The layout is an interface between processes of
//! different builds.

/// A wait for an answer, as it lies in the page: its number, and in the lowest bit whether nothing
/// moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkWait {
    /// Differs from that of the wait before on the same connection.
    pub number: u64,
    /// No byte has moved since it began. Where it has not, the exchange may be a long one.
    pub is_silent: bool,
}

impl LinkWait {
    pub(crate) const UNDER_WAY: u64 = 0;
    pub(crate) const SILENT: u64 = 1;

    pub(crate) fn of(word: u64) -> Option<Self> {
        let wait = Self { number: word >> 1, is_silent: word & Self::SILENT != 0 };
        (word != 0).then_some(wait)
    }
}
