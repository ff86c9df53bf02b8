//! How far a disk can be used.

/// How far a disk can be used, with its number in messages; the later, the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum DiskHealth {
    /// It reads and writes.
    #[default]
    Healthy = 0,
    /// It takes far longer than it should.
    Slow = 1,
    /// An operation does not come to an end, so that no new one of its kind is begun.
    Hung = 2,
    /// It has no room for anything new, and reads only.
    Full = 3,
    /// It cannot be written to, and reads only.
    ReadOnly = 4,
    /// It could not be opened.
    Failed = 5,
    /// It is not used any more.
    Withdrawn = 6,
}

impl DiskHealth {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Healthy,
        Self::Slow,
        Self::Hung,
        Self::Full,
        Self::ReadOnly,
        Self::Failed,
        Self::Withdrawn,
    ];

    /// Its name in logs, metrics and commands.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Slow => "slow",
            Self::Hung => "hung",
            Self::Full => "full",
            Self::ReadOnly => "read_only",
            Self::Failed => "failed",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// The health of a number in a message, if this build knows it.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_what_they_stand_for() {
        for health in DiskHealth::ALL {
            assert_eq!(DiskHealth::from_wire(health as u8), Some(health));
        }
        assert_eq!(DiskHealth::from_wire(DiskHealth::ALL.len() as u8), None);
    }
}
