//! Reads and writes of another process's memory over TCP: one message, one client and one server,
//! on which the store and the transfer engine both stand.
//!
//! A client moves [`Slice`]s to a [`Target`], on the calling thread ([`BlockingCall`]) or on shards
//! ([`Shards`]). A [`Server`] moves what a [`MemoryOwner`] allows. The invariant: no byte moves
//! before its owner has checked the range and every guard of it, and a slice reports only when its
//! memory is not touched any more.
#![deny(unsafe_code)]

mod breaker;
mod client;
mod error;
mod greeting;
mod limits;
mod mooncake;
mod names;
mod peer_address;
mod reached_peer;
mod reply;
mod scope;
mod server;
mod server_times;
mod slice;
mod stats;
mod target;
mod wire;

pub use client::{
    BatchWait, BlockingCall, PeerQueues, Shards, ShardsError, ShardsOptions, SliceOrder, Terms,
};
pub use error::PeerError;
pub use limits::{
    BODY_BYTES_MAX, CONNECT_DEADLINE, PIECES_MAX, REQUEST_BYTES_MAX, SPIN, STALL_CHECK,
    STOP_DEADLINE,
};
pub use names::Names;
pub use peer_address::{Dialect, PeerAddress};
pub use reply::{Reply, StagedPlaces};
pub use scope::Scope;
pub use server::dialects::Dialects;
pub use server::{
    ConnectionState, FetchRequest, FetchedPieces, GrantedRange, MemoryOwner, MoveService,
    PieceRequest, RangeStage, Server, ServerContext, ServerError,
};
pub use server_times::ServerTimes;
pub use slice::{BatchState, Slice, SliceHeader};
pub use stats::{CounterTable, Exchanged, Moved, RouteCounters, UnderWay, record_copy};
pub use target::Target;
pub use wire::{Guard, Piece};
