//! What happens on the connections of a data port, and which memory each of them uses.

use super::dialects::Dialects;
use super::owner::MemoryOwner;
use super::session::{ConnectionState, ServerContext};
use crate::limits::FRAME_BUDGET_BYTES;
use perigee_port::{FrameBudget, Port};
use perigee_shard::{Environment, Stream};
use std::sync::Arc;

/// What the sessions of an owner's connections are made from.
type Shared<O> = <<O as MemoryOwner>::Session as ConnectionState>::Shared;

/// Serves the memory of an owner on a port.
#[derive(Debug)]
pub struct MoveService<O: MemoryOwner> {
    pub(super) owner: Arc<O>,
    pub(super) context: ServerContext<Shared<O>>,
    pub(super) budget: FrameBudget,
    pub(super) dialect: Dialects,
}

impl<O: MemoryOwner> MoveService<O> {
    /// Serves this owner.
    pub fn new(owner: Arc<O>, context: ServerContext<Shared<O>>, dialect: Dialects) -> Self {
        Self { owner, context, budget: FrameBudget::new(FRAME_BUDGET_BYTES), dialect }
    }

    /// Breaks the connections of a port whose present request uses memory of this number.
    pub fn revoke<E: Environment>(&self, port: &Port<E, Self>, memory: usize) {
        port.for_each(|connection| {
            if connection.state.memory.borrow().contains(&memory) {
                connection.stream().shutdown();
            }
        });
    }
}

impl<O: MemoryOwner> Clone for MoveService<O> {
    fn clone(&self) -> Self {
        Self {
            owner: self.owner.clone(),
            context: self.context.clone(),
            budget: self.budget.clone(),
            dialect: self.dialect,
        }
    }
}
