//! Which way bytes go: one type from a caller's request to the wire, the counters and their labels.
//! Invariant: it is seen from the side that asks, and its numbers are those on the wire.

/// Which way bytes go, seen from the side that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// From the owner's memory to ours.
    Read = 0,
    /// From our memory to the owner's.
    Write = 1,
}

impl Direction {
    /// Both, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// The direction with a number; `None` if there is none.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Value of the `direction` label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// The same bytes seen from the other side.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_list_and_no_others_exist() {
        for direction in Direction::ALL {
            assert_eq!(Direction::from_number(direction as u8), Some(direction));
            assert_eq!(direction.opposite().opposite(), direction);
            assert_ne!(direction.opposite(), direction);
        }
        assert_eq!(Direction::from_number(2), None);
    }
}
