//! What a peer answers to a greeting or a request when it does not serve it. Pure.

use crate::wire::{invalid, invalid_text};
use perigee_schemas::Status;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::frame_buffer::FrameBuffer;
use perigee_schemas::session::{Welcome, decode_failure};
use std::io;

/// Takes the whole frame that answers a greeting.
///
/// # Errors
/// The frame is something else, or the peer refuses.
pub(crate) fn take_welcome(arriving: &mut FrameBuffer) -> io::Result<Welcome> {
    let frame = arriving.frame().map_err(invalid)?;
    let (header, body) = frame.ok_or(io::ErrorKind::UnexpectedEof)?;
    let welcome = match header.kind {
        MessageKind::Welcome => Welcome::decode(body).map_err(invalid)?,
        kind => return Err(refusal(kind, body)),
    };
    arriving.consume();
    match welcome.status {
        Status::Ok => Ok(welcome),
        _ => Err(io::Error::other(welcome.message)),
    }
}

/// What a peer says that refuses a connection.
pub(crate) fn refusal(kind: MessageKind, body: &[u8]) -> io::Error {
    if kind != MessageKind::Failure {
        return invalid_text("The peer sent another kind of frame than was expected");
    }
    match decode_failure(body) {
        Ok((status, message)) => io::Error::other(format!("{message} ({status})")),
        Err(error) => invalid(error),
    }
}
