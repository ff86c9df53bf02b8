//! What happens on the connections of a data port, and which memory each of them uses.

use super::owner::Owner;
use super::{Dialects, connection, mooncake};
use crate::limits::FRAME_BUDGET_BYTES;
use crate::stats::Counters;
use perigee_port::{Connection, FrameBudget, Port, Service};
use perigee_shard::{Environment, Stream};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;

/// Serves the memory of an owner on a port.
#[derive(Debug)]
pub struct MoveService<O> {
    pub(super) owner: Arc<O>,
    pub(super) budget: FrameBudget,
    dialect: Dialects,
}

/// What is kept for one connection.
#[derive(Debug)]
pub struct Serving {
    /// Counts of the NIC that it came through.
    pub(super) counters: Arc<Counters>,
    /// Numbers of the memory that its present request uses.
    memory: RefCell<Vec<usize>>,
}

impl Serving {
    /// From now on memory of these numbers is in use, and no other.
    pub(super) fn uses(&self, memory: impl Iterator<Item = usize>) {
        let mut used = self.memory.borrow_mut();
        used.clear();
        used.extend(memory);
        used.dedup();
    }
}

impl<O: Owner> MoveService<O> {
    /// Serves this owner.
    pub fn new(owner: Arc<O>, dialect: Dialects) -> Self {
        Self {
            owner,
            budget: FrameBudget::new(FRAME_BUDGET_BYTES),
            dialect,
        }
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

impl<O> Clone for MoveService<O> {
    fn clone(&self) -> Self {
        Self {
            owner: self.owner.clone(),
            budget: self.budget.clone(),
            dialect: self.dialect,
        }
    }
}

impl<E: Environment, O: Owner> Service<E> for MoveService<O> {
    type State = Serving;

    fn enter(&self, stream: &E::Stream) -> Serving {
        Serving {
            counters: self.owner.counters(stream.socket()),
            memory: RefCell::default(),
        }
    }

    async fn serve(&self, connection: &Connection<E, Serving>) -> io::Result<()> {
        match self.dialect {
            Dialects::Own => connection::serve(self, connection).await,
            Dialects::Mooncake => mooncake::serve(&*self.owner, connection).await,
        }
    }
}
