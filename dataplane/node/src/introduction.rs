//! Tells programs of this host where the master is, so that they need to know only the node's port. Invariant: nobody
//! but the node's own user is answered, and an answer never waits for its reader.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perigee_memory::rendezvous::{listen, verify_peer};
use perigee_store::introduction_name;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;

/// The running thread.
pub(crate) struct Introduction {
    /// Dropped to end the thread.
    stop: UnixStream,
    thread: JoinHandle<()>,
}

impl Introduction {
    /// Tells every program that asks for the node on `port` that the master is `master` (`host:port`). Without it
    /// programs must be told the master's address, so a failure is a warning.
    pub(crate) fn start(port: u16, master: &str) -> Option<Self> {
        let started = Self::try_start(port, master);
        started
            .map_err(|error| tracing::warn!(port, %error, "Programs on this host are not told where the master is"))
            .ok()
    }

    fn try_start(port: u16, master: &str) -> io::Result<Self> {
        let listener = listen(&introduction_name(port)).map_err(io::Error::other)?;
        listener.set_nonblocking(true)?;
        let line = format!("{master}\n");
        let (stop, stopped) = UnixStream::pair()?;
        let thread = std::thread::Builder::new()
            .name("perigee-intro".to_owned())
            .spawn(move || serve(&listener, &stopped, line.as_bytes()))?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // The thread has nothing that panics; if it did, there is nothing left to end.
        let _ = self.thread.join();
    }
}

/// Answers until the other end of `stopped` is closed.
fn serve(listener: &UnixListener, stopped: &UnixStream, line: &[u8]) {
    loop {
        let mut events = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        let polled = poll(&mut events, PollTimeout::NONE);
        if polled.is_ok() && events[1].any() != Some(false) {
            return;
        }
        if let Ok((stream, _)) = listener.accept()
            && let Err(error) = answer(&stream, line)
        {
            tracing::debug!(%error, "A program was not told where the master is");
        }
    }
}

fn answer(mut stream: &UnixStream, line: &[u8]) -> io::Result<()> {
    verify_peer(stream).map_err(io::Error::other)?;
    // The line fits into the buffer of a new socket.
    stream.set_nonblocking(true)?;
    stream.write_all(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_store::ask_node;
    use std::time::Duration;

    #[test]
    fn programs_learn_the_master_while_the_node_runs_and_nothing_after_it() {
        let port = std::process::id() as u16;
        let wait = Duration::from_secs(10);
        let introduction = Introduction::start(port, "10.1.2.3:50051").unwrap();
        for _ in 0..2 {
            assert_eq!(ask_node(port, wait).unwrap(), "10.1.2.3:50051");
        }
        assert!(Introduction::start(port, "10.1.2.3:50051").is_none());
        introduction.stop();
        assert!(ask_node(port, wait).is_err());
    }
}
