//! The bare kernel path as a ceiling for TCP: blocks between two cold memories over loopback,
//! without a protocol.
//! Invariant: both ends poll an io_uring and never sleep, one connection per block in flight, Reno,
//! no checksum.

mod block;
mod caller;
mod poller;
mod server;

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::baseline::rounds::Baseline;
use crate::cpu::pin_to_cpu;
use crate::ends::memory_pair::MemoryPair;
use crate::error::BenchError;
use crate::load::drive::Measured;
use nix::sys::socket::{setsockopt, sockopt};

pub(crate) use block::Pump;

use block::{BlockMemory, NAME};
use caller::Caller;
use server::Server;

impl Pump {
    /// Moves blocks for about `time` between random places of the pair.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn run(&self, pair: &MemoryPair, time: Duration) -> Result<Measured, BenchError> {
        let memory = |base: *mut u8| BlockMemory { base: base as usize, bytes: pair.bytes() };
        let (near, far) = (memory(pair.buffer()), memory(pair.segment()));
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let (cpu, depth) = (self.cpu, self.depth);
        std::thread::scope(|scope| {
            let serve = move || -> Result<(), BenchError> {
                if let Some(cpu) = cpu {
                    pin_to_cpu(cpu)?;
                }
                let accept = |_| Ok(tuned(listener.accept()?.0)?);
                let streams = (0..depth).map(accept).collect::<Result<_, BenchError>>()?;
                Server::new(streams, far)?.serve()
            };
            let server = std::thread::Builder::new()
                .name("perigee-pump".to_owned())
                .spawn_scoped(scope, serve)?;
            let connect = |_| Ok(tuned(TcpStream::connect(address)?)?);
            let streams = (0..depth).map(connect).collect::<Result<_, BenchError>>()?;
            let measured = Caller::new(streams, near, *self)?.run(time);
            let served = server.join();
            served.map_err(|_| BenchError::program(NAME, "its server has ended"))??;
            measured
        })
    }
}

/// A pump between two memories as a baseline.
#[derive(Debug)]
pub(crate) struct Pumping<'a> {
    pub(crate) pump: Pump,
    pub(crate) pair: &'a MemoryPair,
}

impl Baseline for Pumping<'_> {
    fn name(&self) -> &'static str {
        "bare pump"
    }

    fn measure(&mut self, time: Duration) -> Result<Measured, BenchError> {
        self.pump.run(self.pair, time)
    }
}

fn tuned(stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    setsockopt(&stream, sockopt::TcpCongestion, &"reno".into())?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_move_both_ways_and_are_whole() {
        let pair = MemoryPair::new(1 << 20).expect("two memories");
        for gets in [true, false] {
            let pump = Pump { gets, bytes: 1 << 20, depth: 2, cpu: None };
            // Blocks as long as the memories lie at one place only, so that the memories must be
            // equal afterwards.
            if !gets {
                // SAFETY: the buffer is this long, and nothing else uses it now.
                unsafe { pair.buffer().write_bytes(0x77, 1 << 20) };
            }
            let measured = pump.run(&pair, Duration::from_millis(20));
            assert!(measured.expect("it runs").rate() > 0.0);
            // SAFETY: both memories are this long, and nothing writes to them now.
            let (near, far) = unsafe {
                let near = std::slice::from_raw_parts(pair.buffer(), 1 << 20);
                (near, std::slice::from_raw_parts(pair.segment(), 1 << 20))
            };
            assert!(near == far, "gets: {gets}");
        }
    }
}
