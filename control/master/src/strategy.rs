//! How segments are chosen for new replicas. Invariant: fixed for the life of a master.

/// How segments are chosen for new replicas, after the preferred ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Start at a random segment.
    #[default]
    Random,
    /// The emptiest of a few random segments first.
    FreeRatioFirst,
    /// Segments of the writer's host first, then hosts in lexical order rotated by the key's hash;
    /// objects with several replicas are placed as by `Random`.
    LocalFirst,
}

impl Strategy {
    /// The strategy of a flag's value; `ssd_free_ratio_first` is `free_ratio_first` while there is
    /// no SSD tier.
    pub fn from_flag(value: &str) -> Option<Self> {
        match value {
            "random" => Some(Self::Random),
            "free_ratio_first" | "ssd_free_ratio_first" => Some(Self::FreeRatioFirst),
            "local_first" => Some(Self::LocalFirst),
            _ => None,
        }
    }
}
