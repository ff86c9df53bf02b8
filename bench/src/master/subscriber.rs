//! A subscriber of KV events that counts and discards them: what a router costs beside a load.
//! Invariant: it counts whole messages only, and its thread ends with it.

use std::io::{BufReader, Error, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::error::BenchError;
use crate::limits::{ANSWER_DEADLINE, REPLY_BYTES_MAX};

/// ZMTP's greeting, version 3.0 without security.
const GREETING: [u8; 64] = {
    let mut bytes = [0; 64];
    bytes[0] = 0xff;
    bytes[9] = 0x7f;
    bytes[10] = 3;
    let name = *b"NULL";
    let mut at = 0;
    while at < name.len() {
        bytes[12 + at] = name[at];
        at += 1;
    }
    bytes
};
/// A READY command of a SUB socket, then a subscription to every topic.
const READY_AND_SUBSCRIBE: &[u8] =
    b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB\x00\x01\x01";
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// Bytes asked of the kernel at once.
const READ_BYTES: usize = 256 << 10;

/// What it has heard so far.
#[derive(Debug, Default)]
struct HeardCells {
    events: AtomicU64,
    bytes: AtomicU64,
    missed: AtomicU64,
}

/// Counts of what came.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeardEvents {
    pub(super) events: u64,
    /// Bytes of the messages.
    pub(super) bytes: u64,
    /// Sequence numbers that were left out.
    pub(super) missed: u64,
}

/// A connected subscriber with a thread of its own.
#[derive(Debug)]
pub(super) struct EventSubscriber {
    stream: TcpStream,
    heard: Arc<HeardCells>,
    thread: Option<JoinHandle<()>>,
}

impl EventSubscriber {
    /// Subscribes to everything.
    ///
    /// # Errors
    /// Nothing speaks ZMTP there in time.
    pub(super) fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_DEADLINE)?;
        stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
        (&stream).write_all(&GREETING)?;
        (&stream).write_all(READY_AND_SUBSCRIBE)?;
        let mut from = BufReader::with_capacity(READ_BYTES, stream.try_clone()?);
        from.read_exact(&mut [0; GREETING.len()])?;
        // It hears nothing for as long as nothing changes; dropping it ends the wait.
        stream.set_read_timeout(None)?;
        let heard = Arc::<HeardCells>::default();
        let cells = heard.clone();
        let thread = std::thread::Builder::new().name("perigee-heard".to_owned());
        let thread = thread.spawn(move || {
            let mut reader = MessageReader { from, body: Vec::new(), next: None };
            while reader.take(&cells).is_ok() {}
        })?;
        Ok(Self { stream, heard, thread: Some(thread) })
    }

    /// What has come so far.
    pub(super) fn heard(&self) -> HeardEvents {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        HeardEvents {
            events: read(&self.heard.events),
            bytes: read(&self.heard.bytes),
            missed: read(&self.heard.missed),
        }
    }
}

impl Drop for EventSubscriber {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads frame by frame.
struct MessageReader<R> {
    from: R,
    body: Vec<u8>,
    /// The sequence number that comes next.
    next: Option<u64>,
}

impl<R: Read> MessageReader<R> {
    /// One message: topic, number, batch.
    fn take(&mut self, cells: &HeardCells) -> Result<(), Error> {
        if self.frame()? & COMMAND != 0 {
            return Ok(());
        }
        self.frame()?;
        let number = self.body.as_slice().try_into().map_err(|_| malformed())?;
        let number = u64::from_be_bytes(number);
        let missed = self.next.map_or(0, |next| number.saturating_sub(next));
        self.next = Some(number + 1);
        if self.frame()? & MORE != 0 {
            return Err(malformed());
        }
        let events = events_of(&self.body).ok_or_else(malformed)?;
        cells.events.fetch_add(events, Ordering::Relaxed);
        cells.bytes.fetch_add(self.body.len() as u64, Ordering::Relaxed);
        cells.missed.fetch_add(missed, Ordering::Relaxed);
        Ok(())
    }

    /// The next frame lies in `body`; its flags.
    fn frame(&mut self) -> Result<u8, Error> {
        let mut head = [0; 2];
        self.from.read_exact(&mut head)?;
        let [flags, length] = head;
        let length = if flags & LONG == 0 {
            usize::from(length)
        } else {
            let mut rest = [0; 8];
            rest[0] = length;
            self.from.read_exact(&mut rest[1..])?;
            usize::try_from(u64::from_be_bytes(rest)).map_err(|_| malformed())?
        };
        if length > REPLY_BYTES_MAX {
            return Err(malformed());
        }
        self.body.resize(length, 0);
        self.from.read_exact(&mut self.body)?;
        Ok(flags)
    }
}

/// Events of a batch: msgpack of `[time, [event, ...], rank]`.
fn events_of(batch: &[u8]) -> Option<u64> {
    let [0x93, rest @ ..] = batch else {
        return None;
    };
    let list = match rest {
        [0xcf | 0xd3, rest @ ..] => rest.get(8..)?,
        [0xce | 0xd2, rest @ ..] => rest.get(4..)?,
        _ => return None,
    };
    match list {
        [short @ 0x90..=0x9f, ..] => Some(u64::from(short & 0xf)),
        [0xdc, high, low, ..] => Some(u64::from(u16::from_be_bytes([*high, *low]))),
        _ => None,
    }
}

fn malformed() -> Error {
    Error::from(ErrorKind::InvalidData)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64, batch: &[u8]) -> Vec<u8> {
        let long = (batch.len() as u64).to_be_bytes();
        [&[MORE, 0, MORE, 8][..], &number.to_be_bytes(), &[LONG], &long, batch].concat()
    }

    #[test]
    fn events_of_whole_messages_and_numbers_that_were_left_out_are_counted() {
        let batch = |list: &[u8]| [&[0x93, 0xcf, 0, 0, 0, 0, 0, 0, 0, 1][..], list].concat();
        let first = message(7, &batch(&[0x93, 1, 2, 3, 0]));
        let second = message(9, &batch(&[0xdc, 1, 0, 0]));
        let bytes = [&b"\x04\x05READY"[..], &first, &second, &second[..5]].concat();
        let mut reader = MessageReader { from: bytes.as_slice(), body: Vec::new(), next: None };
        let cells = HeardCells::default();
        while reader.take(&cells).is_ok() {}
        assert_eq!(cells.events.load(Ordering::Relaxed), 3 + 256);
        assert_eq!(cells.missed.load(Ordering::Relaxed), 1);
    }
}
