//! Who counts what an engine does.

use crate::error::EngineError;
use crate::request::Direction;
use perigee_mover::Route;
use std::fmt::Debug;
use std::time::Duration;

/// Told about every batch that ends. Called on whatever thread ends it; must be quick.
pub trait Observer: Send + Sync + Debug {
    /// Bytes of one direction of a batch that are in place, and how long the batch took.
    fn moved(&self, route: Route, direction: Direction, bytes: u64, elapsed: Duration);

    /// A batch in which something failed.
    fn failed(&self, route: Route, error: &EngineError);
}

/// Counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn moved(&self, _: Route, _: Direction, _: u64, _: Duration) {}

    fn failed(&self, _: Route, _: &EngineError) {}
}
