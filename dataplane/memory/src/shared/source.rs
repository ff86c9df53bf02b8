//! Where an owner finds the segments that it hands out. Invariant: the answer is of now.

use crate::Segment;
use std::fmt::Debug;
use std::sync::Arc;

/// What has segments to hand out.
pub trait SegmentSource: Send + Sync + Debug + 'static {
    /// Number and memory of each segment; no number is 0.
    fn segments(&self) -> Vec<(u128, Arc<Segment>)>;
}
