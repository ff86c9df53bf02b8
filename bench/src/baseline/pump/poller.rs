//! Connections with one io_uring that is polled; whole messages in, completions out.
//! Invariant: memory of operations under way is not given back: streams are shut and the ring is
//! drained first.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Instant;

use crate::error::BenchError;
use io_uring::{IoUring, opcode, types};

use super::block::NAME;
use crate::limits::ANSWER_DEADLINE;

/// `IORING_ENTER_GETEVENTS`: with deferred task work only an entry with this flag makes completions
/// visible.
const GETEVENTS: u32 = 1;
/// Operations that a connection may have under way.
const OPERATIONS_PER_STREAM: usize = 4;

/// Parts of a message, kept in place while the kernel looks at them.
#[derive(Debug)]
struct Message {
    parts: [libc::iovec; 2],
    head: libc::msghdr,
}

/// Connections and their ring.
pub(super) struct Poller {
    ring: IoUring,
    streams: Vec<TcpStream>,
    /// A message per connection and direction.
    messages: Vec<[Box<Message>; 2]>,
    in_flight: usize,
}

/// Bytes that an operation moves: an address and a length.
pub(super) type Part = (usize, usize);

/// Which way an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Send = 0,
    Receive = 1,
}

/// An operation that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) stream: usize,
    pub(super) way: Way,
    /// Bytes moved; 0 if the other side has closed.
    pub(super) bytes: usize,
}

impl Poller {
    pub(super) fn new(streams: Vec<TcpStream>) -> Result<Self, BenchError> {
        let entries = (streams.len() * OPERATIONS_PER_STREAM).next_power_of_two();
        let ring =
            IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries as u32)?;
        let messages = streams.iter().map(|_| [message(), message()]).collect();
        Ok(Self { ring, streams, messages, in_flight: 0 })
    }

    pub(super) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Queues one message of one or two parts; one per connection and direction at a time.
    ///
    /// # Safety
    /// The parts stay valid, and for a receive unshared, until the operation has ended or the
    /// poller is dropped.
    pub(super) unsafe fn push(
        &mut self,
        stream: usize,
        way: Way,
        parts: [Part; 2],
    ) -> Result<(), BenchError> {
        let fd = types::Fd(self.streams[stream].as_raw_fd());
        let message = &mut self.messages[stream][way as usize];
        message.parts = parts.map(|(base, bytes)| libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(base),
            iov_len: bytes,
        });
        message.head.msg_iov = message.parts.as_mut_ptr();
        message.head.msg_iovlen = if parts[1].1 == 0 { 1 } else { 2 };
        let whole = libc::MSG_WAITALL as u32;
        let head: *mut libc::msghdr = &raw mut message.head;
        let entry = match way {
            Way::Send => opcode::SendMsg::new(fd, head).flags(whole).build(),
            Way::Receive => opcode::RecvMsg::new(fd, head).flags(whole).build(),
        };
        let entry = entry.user_data((stream * 2 + way as usize) as u64);
        // SAFETY: the message lies in a box of this poller; its parts are as the caller promises.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| BenchError::program(NAME, "its queue is full"))?;
        self.in_flight += 1;
        Ok(())
    }

    /// Submits what is queued and takes what has ended, which may be nothing.
    pub(super) fn poll(&mut self, ended: &mut Vec<Ended>) -> Result<(), BenchError> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: no signal mask is passed; queued entries are as `push` demands.
        unsafe {
            self.ring.submitter().enter::<libc::sigset_t>(queued, 0, GETEVENTS, None)?;
        }
        for completion in self.ring.completion() {
            self.in_flight -= 1;
            let (tag, result) = (completion.user_data() as usize, completion.result());
            let gone = [-libc::ECONNRESET, -libc::EPIPE].contains(&result);
            if result < 0 && !gone {
                return Err(std::io::Error::from_raw_os_error(-result).into());
            }
            ended.push(Ended {
                stream: tag / 2,
                way: if tag % 2 == 0 { Way::Send } else { Way::Receive },
                bytes: result.max(0) as usize,
            });
        }
        Ok(())
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let (started, mut ended) = (Instant::now(), Vec::new());
        while self.in_flight > 0 {
            let _ = self.poll(&mut ended);
            if started.elapsed() > ANSWER_DEADLINE {
                // Its memory must not be freed under an operation.
                eprintln!("perigee bench: {NAME}: no end within {ANSWER_DEADLINE:?}");
                std::process::exit(1);
            }
        }
    }
}

fn message() -> Box<Message> {
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    Box::new(Message {
        parts: [nothing; 2],
        // SAFETY: a header of zeros names no address, no control data and no parts.
        head: unsafe { std::mem::zeroed() },
    })
}
