//! Which dialect answers on a connection. Invariant: a port speaks the one that it was made for.

use super::dialects::Dialects;
use super::owner::MemoryOwner;
use super::service::MoveService;
use super::serving::Serving;
use super::{connection, mooncake};
use perigee_port::{Connection, Service};
use perigee_shard::{Environment, Stream};
use std::cell::RefCell;
use std::io;

impl<E: Environment, O: MemoryOwner> Service<E> for MoveService<O> {
    type State = Serving;

    fn enter(&self, stream: &E::Stream) -> Serving {
        Serving {
            counters: self.context.counters.arriving_over(stream.socket()),
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
