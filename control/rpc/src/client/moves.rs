//! Calls of a client that carries out moves of objects out of its segments.
//! Invariant: taking moves is not repeated by itself, because each is given once.

use super::{Builder, MasterClient, status_reply};
use crate::error::CallError;
use crate::reply::Moves;
use crate::request::strings;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::{Status, master};

/// How one move went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedMove<'a> {
    /// Key of the object, with its tenant in front.
    pub key: &'a str,
    /// Generation of the copy's place; names the move.
    pub generation: u64,
    /// `Ok`, or why there is no copy.
    pub status: Status,
    /// Whether bytes of the copy may still arrive at its place.
    pub in_flight: bool,
}

impl MasterClient {
    /// Takes up to `limit` moves of objects in segments of this client.
    ///
    /// # Errors
    /// No answer in time; the master gives moves that got lost up after their deadline.
    pub fn fetch_moves(&self, limit: u32) -> Result<Moves, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let args = master::FetchMovesRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                limit,
            };
            let root = master::FetchMovesRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::FetchMoves, false, encode, Moves::decode)
    }

    /// Tells how moves went; one verdict per move, `TaskNotFound` if the copy is of no use any
    /// more. May be repeated.
    ///
    /// # Errors
    /// No answer in time.
    pub fn end_moves(&self, ended: &[EndedMove<'_>]) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let keys: Vec<&str> = ended.iter().map(|one| one.key).collect();
            let generation: Vec<u64> = ended.iter().map(|one| one.generation).collect();
            let status: Vec<i32> = ended.iter().map(|one| one.status.code()).collect();
            let in_flight: Vec<bool> = ended.iter().map(|one| one.in_flight).collect();
            let args = master::EndMovesRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                keys: Some(strings(builder, &keys)),
                generation: Some(builder.create_vector(&generation)),
                status: Some(builder.create_vector(&status)),
                in_flight: Some(builder.create_vector(&in_flight)),
            };
            let root = master::EndMovesRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::EndMoves, true, encode, |body| status_reply(body, ended.len()))
    }
}
