//! The RPC port of one shard: connections, calls, answers.

mod address_calls;
mod call;
mod codec;
mod connection;
mod disk_calls;
mod dispatch;
mod follow_calls;
mod key_calls;
mod limits;
mod move_calls;
mod put_requests;
mod segment_calls;
mod set_calls;
mod task_calls;

use crate::cluster::control_shard::ControlShard;
use crate::cluster::followers::FollowedSegment;
use limits::{CONNECTIONS_PER_SHARD_MAX, STRANGER_IDLE, UNFINISHED_FRAME_BYTES_MAX};
use perigee_port::{Connection, FrameBudget, Port, PortOptions, Service};
use perigee_shard::Environment;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// The RPC port on one shard.
pub(crate) type RpcPort<E> = Port<E, RpcService<E>>;

/// A connection as calls see it.
type RpcConnection<E> = Connection<E, FollowedSegment<E>>;

/// Serves calls with the state machines of one shard.
pub(crate) struct RpcService<E: Environment> {
    shard: Rc<ControlShard<E>>,
    budget: FrameBudget,
}

impl<E: Environment> RpcService<E> {
    pub(crate) fn new(shard: &Rc<ControlShard<E>>, budget: &FrameBudget) -> Self {
        Self { shard: shard.clone(), budget: budget.clone() }
    }
}

impl<E: Environment> Service<E> for RpcService<E> {
    type State = FollowedSegment<E>;

    fn enter(&self, _: &E::Stream) -> FollowedSegment<E> {
        self.shard.cells.connections_opened.add(1);
        FollowedSegment::default()
    }

    async fn serve(&self, connection: &RpcConnection<E>) -> io::Result<()> {
        connection::serve(connection, &self.shard, &self.budget).await
    }

    fn leave(&self, connection: &RpcConnection<E>) {
        if let Some((segment, follower)) = connection.state.take() {
            self.shard.end_following(segment, &follower);
        }
        self.shard.cells.connections_closed.add(1);
    }

    fn turn_away(&self) {
        self.shard.cells.connections_refused.add(1);
    }
}

/// Bytes that unfinished frames of all shards may hold.
pub(crate) fn frame_budget() -> FrameBudget {
    FrameBudget::new(UNFINISHED_FRAME_BYTES_MAX)
}

/// Bounds of the port; `idle` is the operator's.
pub(crate) fn port_options(idle: Option<Duration>) -> PortOptions {
    PortOptions {
        connections_max: CONNECTIONS_PER_SHARD_MAX,
        idle,
        stranger_idle: Some(STRANGER_IDLE),
    }
}
