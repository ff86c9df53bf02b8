//! The two directions of a connection after its greeting.
//! Invariant: each wait for a peer that could hold something here has a deadline.

use super::frame::{put_command, put_message, read_frame};
use super::greeting::{GREETING_BYTES, SocketKind, check_greeting, check_ready, greeting, ready};
use crate::limits::{GREETING_DEADLINE, PEER_FRAMES_MAX, SEND_DEADLINE};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

const PING: &[u8] = b"\x04PING";
/// Bytes of a PING before its context: its name and how long it holds.
const PING_HEAD_BYTES: usize = 7;
const PONG: &[u8] = b"\x04PONG";
const SUBSCRIBE: &[u8] = b"\x09SUBSCRIBE";
const CANCEL: &[u8] = b"\x06CANCEL";

/// The receiving half of a peer's connection.
pub(crate) struct PeerReader(Box<dyn AsyncRead + Unpin>);

/// The sending half of a peer's connection.
pub(crate) struct PeerWriter {
    to: Box<dyn AsyncWrite + Unpin>,
    buffer: Vec<u8>,
}

/// What came from a peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PeerMessage {
    /// The frames of a message.
    Frames(Vec<Vec<u8>>),
    /// It wants what begins with this topic, or does not want it any more.
    Subscription { topic: Vec<u8>, is_wanted: bool },
    /// It wants this command back, to know that we live.
    Pong(Vec<u8>),
}

/// Greets a peer that has connected.
pub(crate) async fn greet(
    kind: SocketKind,
    mut from: Box<dyn AsyncRead + Unpin>,
    mut to: Box<dyn AsyncWrite + Unpin>,
) -> io::Result<(PeerReader, PeerWriter)> {
    let exchange = async {
        to.write_all(&greeting()).await?;
        let mut theirs = [0; GREETING_BYTES];
        from.read_exact(&mut theirs).await?;
        check_greeting(&theirs).map_err(refused)?;
        let mut writer = PeerWriter { to, buffer: Vec::new() };
        writer.send_command(&ready(kind)).await?;
        let frame = read_frame(&mut from).await?;
        match check_ready(kind, &frame.body) {
            Ok(()) => Ok((PeerReader(from), writer)),
            Err(reason) => {
                let error = [b"\x05ERROR".as_slice(), &[reason.len() as u8], reason.as_bytes()];
                writer.send_command(&error.concat()).await?;
                Err(refused(reason))
            }
        }
    };
    timeout(GREETING_DEADLINE, exchange).await?
}

fn refused(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

impl PeerReader {
    /// The next message. Not to be dropped half-way.
    pub(crate) async fn next(&mut self) -> io::Result<PeerMessage> {
        let mut frames = Vec::new();
        while frames.len() < PEER_FRAMES_MAX {
            let frame = read_frame(&mut self.0).await?;
            if frame.is_command {
                if let Some(message) = command(&frame.body) {
                    return Ok(message);
                }
                continue;
            }
            frames.push(frame.body);
            if !frame.has_more {
                return Ok(PeerMessage::Frames(frames));
            }
        }
        Err(refused("a message has too many frames"))
    }
}

/// The commands that need an answer or change something.
fn command(body: &[u8]) -> Option<PeerMessage> {
    if body.starts_with(PING) {
        let context = body.get(PING_HEAD_BYTES..).unwrap_or_default();
        return Some(PeerMessage::Pong([PONG, context].concat()));
    }
    let wanted = body.strip_prefix(SUBSCRIBE).map(|topic| (topic, true));
    let (topic, is_wanted) =
        wanted.or_else(|| body.strip_prefix(CANCEL).map(|topic| (topic, false)))?;
    Some(PeerMessage::Subscription { topic: topic.to_vec(), is_wanted })
}

impl PeerWriter {
    pub(crate) async fn send_command(&mut self, body: &[u8]) -> io::Result<()> {
        put_command(&mut self.buffer, body);
        self.flush().await
    }

    pub(crate) async fn send_message(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        put_message(&mut self.buffer, frames);
        self.flush().await
    }

    /// Sends messages that are in wire form already.
    pub(crate) async fn send_wire(&mut self, bytes: &[u8]) -> io::Result<()> {
        timeout(SEND_DEADLINE, self.to.write_all(bytes)).await?
    }

    async fn flush(&mut self) -> io::Result<()> {
        let written = timeout(SEND_DEADLINE, self.to.write_all(&self.buffer)).await?;
        self.buffer.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_is_answered_with_its_context_and_subscriptions_are_read() {
        let pong = command(b"\x04PING\x00\x05context");
        assert_eq!(pong, Some(PeerMessage::Pong(b"\x04PONGcontext".to_vec())));
        assert_eq!(command(b"\x04PING"), Some(PeerMessage::Pong(b"\x04PONG".to_vec())));
        let wanted = PeerMessage::Subscription { topic: b"kv".to_vec(), is_wanted: true };
        assert_eq!(command(b"\x09SUBSCRIBEkv"), Some(wanted));
        let ended = PeerMessage::Subscription { topic: Vec::new(), is_wanted: false };
        assert_eq!(command(b"\x06CANCEL"), Some(ended));
        assert_eq!(command(b"\x05OTHER"), None);
    }
}
