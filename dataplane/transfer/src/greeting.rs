//! The first words of a client on a new data connection. Invariant: a stream that comes out of here was welcomed.

use crate::limits::CONNECT_DEADLINE;
use crate::wire;
use perigee_schemas::frame::Kind;
use perigee_schemas::session::{Hello, Role, Welcome, decode_failure};
use perigee_schemas::{Identity, Status};
use perigee_shard::{Environment, connect_within, within};
use std::io;
use std::net::SocketAddr;

/// Connects to a data port and greets its owner.
///
/// # Errors
/// Nobody answers in time, or the owner refuses.
pub(crate) async fn greet<E: Environment>(
    environment: &E,
    address: SocketAddr,
    identity: Identity,
) -> io::Result<E::Stream> {
    let stream = connect_within(environment, CONNECT_DEADLINE, address).await?;
    let talk = async {
        wire::send_bytes(&stream, Hello::new(Role::Client, identity).encode()).await?;
        wire::receive_frame(&stream).await
    };
    let (header, body) = within(environment, CONNECT_DEADLINE, &stream, talk).await?;
    if header.kind == Kind::Failure {
        let (status, message) = decode_failure(&body).map_err(wire::invalid)?;
        return Err(io::Error::other(format!("{message} ({status})")));
    }
    let welcome = Welcome::decode(&body).map_err(wire::invalid)?;
    match welcome.status {
        Status::Ok => Ok(stream),
        _ => Err(io::Error::other(welcome.message)),
    }
}
