//! Frames: a byte of flags, a length of one or eight bytes, the body.

use crate::limits::PEER_FRAME_BYTES_MAX;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// Bytes of a length in a long frame.
const LONG_LENGTH_BYTES: usize = 8;

/// A frame that a peer sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) is_command: bool,
    /// Another frame of the same message follows.
    pub(crate) has_more: bool,
    pub(crate) body: Vec<u8>,
}

/// Reads a frame of at most [`PEER_FRAME_BYTES_MAX`] bytes.
pub(crate) async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let flags = from.read_u8().await?;
    if flags & !(MORE | LONG | COMMAND) != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame has unknown flags"));
    }
    let length = match flags & LONG {
        0 => u64::from(from.read_u8().await?),
        _ => from.read_u64().await?,
    };
    if length > PEER_FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"));
    }
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body).await?;
    Ok(Frame { is_command: flags & COMMAND != 0, has_more: flags & MORE != 0, body })
}

/// Appends a command.
pub(crate) fn put_command(out: &mut Vec<u8>, body: &[u8]) {
    put_frame(out, COMMAND, body);
}

/// Appends a message of several frames.
pub(crate) fn put_message(out: &mut Vec<u8>, frames: &[&[u8]]) {
    for (at, body) in frames.iter().enumerate() {
        put_frame(out, if at + 1 < frames.len() { MORE } else { 0 }, body);
    }
}

/// Appends the first frames of a message and the head of its last one; returns where the body of
/// that begins. [`end_message`] ends it.
pub(crate) fn begin_message(out: &mut Vec<u8>, frames: &[&[u8]]) -> usize {
    frames.iter().for_each(|body| put_frame(out, MORE, body));
    out.push(LONG);
    out.extend_from_slice(&[0; LONG_LENGTH_BYTES]);
    out.len()
}

/// Says how long the last frame is: from `body` on to the end.
pub(crate) fn end_message(out: &mut Vec<u8>, body: usize) {
    let length = out.len() - body;
    let head = body - LONG_LENGTH_BYTES - 1;
    match u8::try_from(length) {
        Ok(length) => {
            out[head..head + 2].copy_from_slice(&[0, length]);
            out.drain(head + 2..body);
        }
        Err(_) => out[head + 1..body].copy_from_slice(&(length as u64).to_be_bytes()),
    }
}

fn put_frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => out.extend_from_slice(&[flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::runtime::Builder;

    fn read_all(mut bytes: &[u8]) -> (Vec<Frame>, io::Error) {
        let runtime = Builder::new_current_thread().build().unwrap();
        let mut frames = Vec::new();
        loop {
            match runtime.block_on(read_frame(&mut bytes)) {
                Ok(frame) => frames.push(frame),
                Err(error) => return (frames, error),
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let long = vec![7; 300];
        let mut bytes = Vec::new();
        put_command(&mut bytes, b"\x05READY");
        put_message(&mut bytes, &[b"", &long]);
        let (frames, end) = read_all(&bytes);
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        let frame =
            |is_command, has_more, body: &[u8]| Frame { is_command, has_more, body: body.to_vec() };
        let wanted =
            [frame(true, false, b"\x05READY"), frame(false, true, b""), frame(false, false, &long)];
        assert_eq!(frames, wanted);
    }

    #[test]
    fn a_message_that_is_written_in_place_is_the_same_as_one_that_is_copied() {
        for length in [0, 1, 255, 256, 70_000] {
            let body = vec![7; length];
            let (mut in_place, mut copied) = (b"before".to_vec(), b"before".to_vec());
            let at = begin_message(&mut in_place, &[b"", b"number"]);
            in_place.extend_from_slice(&body);
            end_message(&mut in_place, at);
            put_message(&mut copied, &[b"", b"number", &body]);
            assert_eq!(in_place, copied);
        }
    }

    #[test]
    fn a_length_that_only_a_liar_sends_is_refused_before_memory_is_taken() {
        let mut bytes = vec![LONG];
        bytes.extend_from_slice(&u64::MAX.to_be_bytes());
        let (frames, error) = read_all(&bytes);
        assert!(frames.is_empty());
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_frames_and_an_error(bytes: Vec<u8>) {
            let (frames, _) = read_all(&bytes);
            prop_assert!(frames.iter().all(|frame| frame.body.len() <= bytes.len()));
        }
    }
}
