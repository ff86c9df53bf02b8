//! Random 128-bit identities of processes, clients and segments. Never derived from a host or a
//! port.

use std::fmt;

/// A random 128-bit identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub u128);

impl Identity {
    /// Joins the two halves that messages carry.
    pub const fn from_halves(high: u64, low: u64) -> Self {
        Self(((high as u128) << 64) | low as u128)
    }

    /// The high 64 bits.
    pub const fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The low 64 bits.
    pub const fn low(self) -> u64 {
        self.0 as u64
    }
}

/// Thirty-two hexadecimal digits.
impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_trip() {
        let identity = Identity(0x0123_4567_89ab_cdef_1122_3344_5566_7788);
        assert_eq!(Identity::from_halves(identity.high(), identity.low()), identity);
        assert_eq!(identity.to_string(), "0123456789abcdef1122334455667788");
    }
}
