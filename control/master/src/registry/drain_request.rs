//! What a drain job is asked for. Invariant: names are as the operator wrote them.

/// What an operator asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DrainJobRequest {
    /// Names of the segments to be emptied, or their identities as two decimal halves (`high-low`).
    pub segments: Vec<String>,
    /// Names of the segments that may take their objects; all others if empty.
    pub target_segments: Vec<String>,
    /// Moves under way at the same time, at least 1.
    pub max_concurrency: u32,
}
