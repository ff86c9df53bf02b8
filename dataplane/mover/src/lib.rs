//! Reads and writes of another process's memory over TCP: one message, one client and one server, on which the store and
//! the transfer engine both stand.
//!
//! A client moves [`Slice`]s to a [`Target`], on the calling thread ([`Call`]) or on shards ([`Shards`]). A [`Server`] moves
//! what an [`Owner`] lets it. The invariant: no byte moves before its owner has checked the range and every guard of it, and
//! a slice reports only when nobody touches its memory any more.
#![deny(unsafe_code)]

mod breaker;
mod client;
mod error;
mod greeting;
mod limits;
mod mooncake;
mod names;
mod server;
mod slice;
mod stats;
mod target;
mod wire;

pub use client::{BatchWait, Call, Order, Peers, Shards, ShardsError, ShardsOptions, Terms};
pub use error::PeerError;
pub use limits::{
    BODY_BYTES_MAX, CONNECT_DEADLINE, PIECES_MAX, REQUEST_BYTES_MAX, SPIN, STALL_CHECK,
    STOP_DEADLINE,
};
pub use names::Names;
pub use server::{Dialects, MoveService, Owner, Range, Server, ServerError, Session};
pub use slice::{Direction, Memory, Slice};
pub use stats::{Counters, Exchanged, Ledger, Moved, Route, UnderWay, record_copy};
pub use target::{Dialect, PeerAddress, Target};
pub use wire::{Guard, Piece, Reply, Scope};
