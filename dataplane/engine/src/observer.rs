//! Who counts what an engine does.

use crate::error::EngineError;
use crate::request::Direction;
use perigee_schemas::Route;
use std::fmt::Debug;
use std::time::Duration;

/// Gets every batch that ends. Called on whatever thread ends it; must be quick.
pub trait BatchObserver: Send + Sync + Debug {
    /// Bytes of one direction of a batch that are in place, and how long the batch took.
    fn moved(&self, route: Route, direction: Direction, bytes: u64, elapsed: Duration);

    /// A batch in which something failed.
    fn failed(&self, route: Route, error: &EngineError);
}

/// Counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl BatchObserver for Unobserved {
    fn moved(&self, _: Route, _: Direction, _: u64, _: Duration) {}

    fn failed(&self, _: Route, _: &EngineError) {}
}
