//! The first words on a connection, both sides. Invariant: frames that come out of here are of a
//! peer that was welcomed or has welcomed us, within one deadline over all of its greeting.

use crate::frame_budget::FrameBudget;
use crate::frames::{Frames, invalid};
use crate::limits::GREETING_DEADLINE;
use perigee_schemas::Status;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::session::{Hello, Welcome, decode_failure};
use perigee_shard::{Environment, Stream, connect_within, within};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Waits for the peer's greeting and answers it; `epoch` is the random number of this run of the
/// process. From then on its frames have bodies of at most `limit` bytes.
///
/// # Errors
/// The peer is too slow or leaves, greets with something else (`InvalidData`), or speaks no
/// protocol version of ours (`Unsupported`); it got the reason.
pub async fn greet<E: Environment>(
    frames: &mut Frames<E>,
    epoch: u64,
    limit: usize,
) -> io::Result<Hello> {
    if let Err(error) = frames.finish(GREETING_DEADLINE).await {
        return match error.kind() {
            io::ErrorKind::InvalidData => frames.refuse(0, Status::DeserializeFail, error).await,
            _ => Err(error),
        };
    }
    let (header, body) = match frames.frame() {
        Ok(frame) => frame,
        Err(error) => return frames.refuse(0, Status::DeserializeFail, error).await,
    };
    if header.kind != MessageKind::Hello {
        let error = io::Error::new(io::ErrorKind::InvalidData, "The first frame is not a greeting");
        return frames.refuse(header.request, Status::InvalidVersion, error).await;
    }
    let hello = match Hello::decode(body) {
        Ok(hello) => hello,
        Err(error) => {
            return frames.refuse(0, Status::DeserializeFail, invalid(error)).await;
        }
    };
    frames.consume();
    frames.buffer().expect_at_most(limit);
    let welcome = hello.answer(epoch);
    frames.send_bytes(welcome.encode()).await?;
    let refused = |status| io::Error::new(io::ErrorKind::Unsupported, status);
    welcome.status.ok().map_err(refused)?;
    Ok(hello)
}

/// Connects to a port and greets its owner, both within `deadline`. From then on the owner's frames
/// have bodies of at most `limit` bytes.
///
/// # Errors
/// The owner does not answer in time, or refuses.
pub async fn connect<E: Environment>(
    environment: &E,
    address: SocketAddr,
    hello: &Hello,
    (budget, limit): (&FrameBudget, usize),
    deadline: Duration,
) -> io::Result<(Frames<E>, Welcome)> {
    let end = environment.now() + deadline;
    let stream = connect_within(environment, deadline, address).await?;
    let mut frames = Frames::new(environment, &stream, budget);
    let talk = async {
        frames.send_bytes(hello.encode()).await?;
        frames.whole().await
    };
    let left = end.saturating_sub(environment.now());
    if let Err(error) = within(environment, left, &stream, talk).await {
        stream.shutdown();
        return Err(error);
    }
    let welcome = match read_welcome(&frames) {
        Ok(welcome) => welcome,
        Err(error) => {
            stream.shutdown();
            return Err(error);
        }
    };
    frames.consume();
    frames.buffer().expect_at_most(limit);
    Ok((frames, welcome))
}

fn read_welcome<E: Environment>(frames: &Frames<E>) -> io::Result<Welcome> {
    let (header, body) = frames.frame()?;
    if header.kind == MessageKind::Failure {
        let (status, message) = decode_failure(body).map_err(invalid)?;
        return Err(io::Error::other(format!("{message} ({status})")));
    }
    let welcome = Welcome::decode(body).map_err(invalid)?;
    match welcome.status {
        Status::Ok => Ok(welcome),
        _ => Err(io::Error::other(welcome.message)),
    }
}
