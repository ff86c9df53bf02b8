//! A CRC-32C under way. Invariant: the state is inverted, as the instruction of the processor wants
//! it.

/// The shift register of a running CRC-32C, not yet inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawState(pub(crate) u32);

impl RawState {
    /// The state before the first byte.
    pub(crate) const START: RawState = RawState(u32::MAX);

    /// The finished checksum.
    pub(crate) const fn finish(self) -> u32 {
        !self.0
    }
}
