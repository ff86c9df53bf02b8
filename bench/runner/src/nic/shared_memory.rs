//! Both ends on one host, through one mapping: the copy that the store does between processes.
//! Invariant: nothing outside the mapping is touched, and a row is refused if the target was gone when it ended.

use std::io::{ErrorKind, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use perigee_memory::copy::copy_streaming;
use perigee_memory::rendezvous::{OfferedSegment, connect, listen, recv_segments, send_segments};
use perigee_memory::segment::{Access, SegmentOptions};
use perigee_memory::{HostBuffer, MappedSegment, Segment};

use crate::error::BenchError;
use crate::limits::{POLL, START_DEADLINE};
use crate::mover::{CardCount, Move, Mover, Ticket, Way};
use crate::stop::Stop;

/// Number of the one segment.
const SEGMENT: u128 = 1;

fn refuse(peer: &str, detail: impl ToString) -> BenchError {
    BenchError::SharedMemory {
        peer: peer.to_owned(),
        detail: detail.to_string(),
    }
}

/// A segment that others may map.
pub(super) struct SharedTarget {
    name: String,
    segment: Segment,
    listener: UnixListener,
}

impl SharedTarget {
    pub(super) fn start(name: &str, bytes: u64) -> Result<Self, BenchError> {
        let segment = Segment::create(bytes, &SegmentOptions::default())?;
        // SAFETY: the segment is this long, and nobody else has it yet.
        unsafe { segment.base().write_bytes(0x5A, segment.len()) };
        let listener = listen(name).map_err(|error| refuse(name, error))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            name: name.to_owned(),
            segment,
            listener,
        })
    }

    /// Hands the segment to who asks, until the end is asked for.
    pub(super) fn serve(&self, stop: &Stop) -> Result<(), BenchError> {
        // Open as long as the target lives: their end is how a peer notices that it is gone.
        let mut peers = Vec::new();
        while !stop.is_set() {
            match self.listener.accept() {
                Ok((stream, _)) => match self.hand_out(&stream) {
                    Ok(()) => peers.push(stream),
                    Err(error) => eprintln!("{}: a peer was refused: {error}", self.name),
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(POLL),
                Err(error) => return Err(error.into()),
            }
            peers.retain(is_open);
        }
        Ok(())
    }

    fn hand_out(&self, stream: &UnixStream) -> Result<(), BenchError> {
        let offer = OfferedSegment {
            id: SEGMENT,
            segment_bytes: self.segment.len() as u64,
            fd: self.segment.fd(),
        };
        send_segments(stream, &[offer], Instant::now() + START_DEADLINE)
            .map_err(|error| refuse(&self.name, error))
    }
}

/// Whether the process at the other end still has its socket.
fn is_open(stream: &UnixStream) -> bool {
    let mut byte = [0];
    let mut stream = stream;
    let _ = stream.set_nonblocking(true);
    !matches!(stream.read(&mut byte), Ok(0))
}

/// A mapped target and a buffer of this process.
pub(super) struct SharedMover {
    peer: String,
    stream: UnixStream,
    mapping: MappedSegment,
    buffer: HostBuffer,
}

impl SharedMover {
    pub(super) fn connect(peer: &str, bytes: u64) -> Result<Self, BenchError> {
        let refuse = |detail: String| refuse(peer, detail);
        let stream = connect(peer, Instant::now() + START_DEADLINE).map_err(|error| {
            refuse(format!(
                "{error}; is perigee bench nic --role target --transport shm running here?"
            ))
        })?;
        let received = recv_segments(&stream, Instant::now() + START_DEADLINE)
            .map_err(|error| refuse(error.to_string()))?;
        let [segment] = <[_; 1]>::try_from(received)
            .map_err(|all| refuse(format!("{} segments, 1 is expected", all.len())))?;
        if segment.segment_bytes < bytes {
            return Err(refuse(format!(
                "its buffer has {} bytes, {bytes} are needed; pass the same --buffer on both ends",
                segment.segment_bytes
            )));
        }
        let mapping = MappedSegment::map(segment.fd, segment.segment_bytes, Access::ReadWrite)
            .map_err(|error| refuse(error.to_string()))?;
        let buffer = HostBuffer::allocate(bytes as usize)?;
        // SAFETY: the buffer is this long, and nobody else has it.
        unsafe { buffer.base().write_bytes(0x5A, bytes as usize) };
        Ok(Self {
            peer: peer.to_owned(),
            stream,
            mapping,
            buffer,
        })
    }

    /// Address of the buffer.
    pub(super) fn address(&self) -> u64 {
        self.buffer.base() as u64
    }
}

impl Mover for SharedMover {
    fn submit(&self, moves: &[Move]) -> Result<Ticket, BenchError> {
        moves.iter().try_for_each(|piece| self.transfer(piece))?;
        Ok(Ticket(0))
    }

    fn wait(&self, _: Ticket) -> Result<(), BenchError> {
        Ok(())
    }

    fn transfer(&self, piece: &Move) -> Result<(), BenchError> {
        let Some(remote) = self.mapping.range(piece.remote, piece.bytes) else {
            return Err(refuse(&self.peer, "the range lies outside its buffer"));
        };
        let local = piece.local as *mut u8;
        let (target, source) = match piece.way {
            Way::Write => (remote.cast_mut(), local.cast_const()),
            Way::Read => (local, remote),
        };
        // SAFETY: the remote range was checked against the mapping; the local one belongs to this operation.
        unsafe { copy_streaming(target, source, piece.bytes as usize) };
        Ok(())
    }

    fn cards(&self) -> Vec<CardCount> {
        Vec::new()
    }

    fn check_peer(&self) -> Result<(), BenchError> {
        if is_open(&self.stream) {
            Ok(())
        } else {
            Err(refuse(&self.peer, "the target has ended"))
        }
    }
}
