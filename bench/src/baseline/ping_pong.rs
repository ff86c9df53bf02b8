//! A message and its short answer between two threads, each with an io_uring that it polls: the
//! least that a write over TCP with an acknowledgement can take. Invariant: neither side ever
//! sleeps while a message is under way.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};

use crate::baseline::rounds::Baseline;
use crate::cpu::pin_to_cpu;
use crate::error::BenchError;
use crate::limits::ANSWER_DEADLINE;
use crate::load::drive::{Measured, Span, Step, Worker, drive};
use crate::stop::Stop;

const ANSWER_BYTES: usize = 16;
const NAME: &str = "ping-pong";

/// One side.
struct Side {
    ring: IoUring,
    stream: TcpStream,
}

impl Side {
    fn new(stream: TcpStream) -> Result<Self, BenchError> {
        stream.set_nodelay(true)?;
        let ring = IoUring::new(8)?;
        Ok(Self { ring, stream })
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        let fd = types::Fd(self.stream.as_raw_fd());
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = &bytes[sent..];
            let entry = opcode::Send::new(fd, rest.as_ptr(), rest.len() as u32).build();
            // SAFETY: `rest` outlives the operation, which `once` waits for.
            sent += unsafe { self.once(&entry)? };
        }
        Ok(())
    }

    fn receive(&mut self, bytes: &mut [u8]) -> Result<(), BenchError> {
        let fd = types::Fd(self.stream.as_raw_fd());
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            let entry = opcode::Recv::new(fd, rest.as_mut_ptr(), rest.len() as u32).build();
            // SAFETY: `rest` outlives the operation, which `once` waits for.
            filled += unsafe { self.once(&entry)? };
        }
        Ok(())
    }

    /// Submits one operation and polls for its end. An operation that does not end in time ends the
    /// process: its memory must not be freed under it.
    ///
    /// # Safety
    /// The memory of the entry stays valid until this returns.
    unsafe fn once(&mut self, entry: &squeue::Entry) -> Result<usize, BenchError> {
        // SAFETY: as the caller promises; nothing else is in the queue.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| BenchError::program(NAME, "its queue is full"))?;
        self.ring.submit()?;
        let started = Instant::now();
        loop {
            if let Some(completion) = self.ring.completion().next() {
                return match completion.result() {
                    moved if moved > 0 => Ok(moved as usize),
                    0 => Err(BenchError::program(NAME, "the other side has ended")),
                    error => Err(std::io::Error::from_raw_os_error(-error).into()),
                };
            }
            if started.elapsed() > ANSWER_DEADLINE {
                eprintln!("perigee bench: {NAME}: no answer within {ANSWER_DEADLINE:?}");
                std::process::exit(1);
            }
            std::hint::spin_loop();
        }
    }
}

/// The asking side; the other one is a thread that ends with it.
pub(crate) struct PingPong {
    side: Side,
    message: Vec<u8>,
}

impl PingPong {
    /// Both sides of messages of `bytes` bytes; the answering one on a CPU of its own if given.
    pub(crate) fn start(bytes: usize, cpu: Option<usize>) -> Result<Self, BenchError> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let answer = move || -> Result<(), BenchError> {
            if let Some(cpu) = cpu {
                pin_to_cpu(cpu)?;
            }
            let mut side = Side::new(listener.accept()?.0)?;
            let mut message = vec![0; bytes];
            loop {
                side.receive(&mut message)?;
                side.send(&[0; ANSWER_BYTES])?;
            }
        };
        std::thread::Builder::new().name("perigee-answer".to_owned()).spawn(answer)?;
        Ok(Self { side: Side::new(TcpStream::connect(address)?)?, message: vec![0x5A; bytes] })
    }
}

impl Worker for PingPong {
    /// One message and its answer.
    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        let started = Instant::now();
        self.side.send(&self.message)?;
        self.side.receive(&mut [0; ANSWER_BYTES])?;
        Ok(Step { took: started.elapsed(), units: self.message.len() as u64, corrupt: 0 })
    }
}

/// Ping-pongs as a baseline: a new pair each time, because one that waits would poll while the load
/// runs.
#[derive(Debug)]
pub(crate) struct PingPongs<'a> {
    pub(crate) bytes: usize,
    /// CPU of the answering thread.
    pub(crate) cpu: Option<usize>,
    pub(crate) stop: &'a Stop,
}

impl Baseline for PingPongs<'_> {
    fn name(&self) -> &'static str {
        "polling ping-pong"
    }

    fn measure(&mut self, time: Duration) -> Result<Measured, BenchError> {
        let mut pair = [PingPong::start(self.bytes, self.cpu)?];
        drive(&mut pair, &Span::cold(time), self.stop)
    }
}
