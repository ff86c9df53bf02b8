//! Answers a consumer that asks for batches which it missed, as vLLM's engines do.
//!
//! The question is one frame, a sequence number of 8 bytes, behind an empty frame if the socket
//! of the consumer sends one. The answers are `[number, batch]` for each batch from there on that
//! is kept, then `[-1, empty]`. If a number is missing, that batch is gone: the consumer takes a
//! snapshot.

use crate::limits::REPLAY_IDLE;
use crate::message_run::TOPIC_FRAME_BYTES;
use crate::publisher_state::PublisherState;
use crate::server::Streams;
use crate::zmtp::greeting::SocketKind;
use crate::zmtp::peer::{PeerMessage, PeerWriter, greet};
use std::io;
use std::rc::Rc;
use tokio::time::timeout;

/// The number after the last batch.
const END: i64 = -1;

/// Serves a consumer until it goes.
pub(crate) async fn serve_replay(state: Rc<PublisherState>, (from, to): Streams) -> io::Result<()> {
    let (mut reader, mut writer) = greet(SocketKind::Router, from, to).await?;
    loop {
        match timeout(REPLAY_IDLE, reader.next()).await?? {
            PeerMessage::Pong(pong) => writer.send_command(&pong).await?,
            PeerMessage::Subscription { .. } => {}
            PeerMessage::Frames(frames) => match question(&frames) {
                Some((is_delimited, first)) => {
                    replay(&state, &mut writer, is_delimited, first).await?;
                }
                None => {
                    let reason = "a replay is asked for with one frame of 8 bytes";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
            },
        }
    }
}

/// Whether an empty frame came first, and the number asked for.
fn question(frames: &[Vec<u8>]) -> Option<(bool, u64)> {
    let (is_delimited, number) = match frames {
        [number] => (false, number),
        [delimiter, number] if delimiter.is_empty() => (true, number),
        _ => return None,
    };
    let number = number.as_slice().try_into().ok()?;
    Some((is_delimited, u64::from_be_bytes(number)))
}

async fn replay(
    state: &PublisherState,
    writer: &mut PeerWriter,
    is_delimited: bool,
    first: u64,
) -> io::Result<()> {
    // What is published from now on comes with the next question, so that this answer ends.
    let end = state.next_sequence();
    let mut next = first;
    while let Some(run) = state.run_from(next).filter(|run| run.end() <= end) {
        if is_delimited {
            // The topic of a message and the delimiter of an answer are the same empty frame.
            writer.send_wire(run.from(next)).await?;
        } else {
            let answers = run.each_from(next).map(|message| &message[TOPIC_FRAME_BYTES..]);
            writer.send_wire(&answers.collect::<Vec<_>>().concat()).await?;
        }
        next = run.end();
    }
    let frames = [b"".as_slice(), &END.to_be_bytes(), b""];
    writer.send_message(&frames[usize::from(!is_delimited)..]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_a_number_with_or_without_a_delimiter() {
        let number = 7_u64.to_be_bytes().to_vec();
        assert_eq!(question(std::slice::from_ref(&number)), Some((false, 7)));
        assert_eq!(question(&[vec![], number.clone()]), Some((true, 7)));
        assert_eq!(question(&[vec![1], number.clone()]), None);
        assert_eq!(question(&[vec![], vec![1, 2]]), None);
        assert_eq!(question(&[]), None);
    }
}
