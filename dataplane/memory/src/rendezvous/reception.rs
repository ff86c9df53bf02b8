//! The side that hands segments out: a thread that meets every process of our own user, and keeps its connection open.
//! Invariant: a guest stays listed as long as its process lives and neither side has ended the connection, so whoever asks
//! all guests has asked everybody who may still have a mapping.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{RendezvousError, listen, verify_peer};
use crate::limits::{ACCEPT_PAUSE_MS, RENDEZVOUS_GUESTS_MAX};

/// Who hands segments out.
pub trait Host: Send + Sync + std::fmt::Debug + 'static {
    /// What is kept of a guest as long as its connection is open.
    type Guest: Send + std::fmt::Debug + 'static;

    /// Hands out what there is; `None` sends the guest away. The list of guests is locked meanwhile, so a dismissal either
    /// finds this guest or has already changed what is handed out.
    fn welcome(&self, stream: &UnixStream) -> Option<Self::Guest>;
}

/// A listening socket and the processes that have come.
#[derive(Debug)]
pub struct Reception<H: Host> {
    shared: Arc<Shared<H>>,
    /// Its end wakes the thread.
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<H: Host> {
    host: H,
    guests: Mutex<Vec<Present<H::Guest>>>,
}

#[derive(Debug)]
struct Present<G> {
    stream: Arc<UnixStream>,
    guest: G,
}

impl<H: Host> Reception<H> {
    /// Listens under `socket` in the abstract namespace.
    ///
    /// # Errors
    /// The name is taken or has no usable length, or there is no thread to be had.
    pub fn open(socket: &str, thread: &str, host: H) -> Result<Self, RendezvousError> {
        let listener = listen(socket)?;
        listener.set_nonblocking(true)?;
        let (stop, stopped) = UnixStream::pair()?;
        let shared = Arc::new(Shared {
            host,
            guests: Mutex::default(),
        });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name(thread.to_owned())
            .spawn(move || theirs.serve(&listener, &stopped))?;
        Ok(Self {
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// Ends the connections to all guests, which drop their mappings when they notice, and gives back what was kept of
    /// them.
    pub fn dismiss(&self) -> Vec<(Arc<UnixStream>, H::Guest)> {
        let guests = std::mem::take(&mut *self.shared.lock());
        let end = |present: Present<H::Guest>| {
            let _ = present.stream.shutdown(Shutdown::Write);
            (present.stream, present.guest)
        };
        guests.into_iter().map(end).collect()
    }

    /// Tells every guest that there is more to be handed out. One that does not read has been told already.
    pub fn announce(&self) {
        for present in self.shared.lock().iter() {
            let _ = (&*present.stream).write(&[1]);
        }
    }
}

impl<H: Host> Drop for Reception<H> {
    fn drop(&mut self) {
        let _ = self.stop.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.dismiss();
    }
}

impl<H: Host> Shared<H> {
    fn lock(&self) -> MutexGuard<'_, Vec<Present<H::Guest>>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, listener: &UnixListener, stopped: &UnixStream) {
        let mut buffer = [0; 1];
        loop {
            self.wait(listener, stopped);
            if self.forget_departed(stopped, &mut buffer) {
                return;
            }
            match listener.accept() {
                Ok((stream, _)) => self.welcome(stream),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Out of descriptors: the socket stays readable, so a look at once would spin.
                Err(_) => std::thread::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)),
            }
        }
    }

    fn welcome(&self, stream: UnixStream) {
        let mut guests = self.lock();
        if guests.len() >= RENDEZVOUS_GUESTS_MAX || verify_peer(&stream).is_err() {
            return;
        }
        if let Some(guest) = self.host.welcome(&stream)
            && stream.set_nonblocking(true).is_ok()
        {
            let stream = Arc::new(stream);
            guests.push(Present { stream, guest });
        }
    }

    /// Takes guests off the list that have left or do not keep silent; true if the end was asked for.
    fn forget_departed(&self, stopped: &UnixStream, buffer: &mut [u8]) -> bool {
        let is_silent = |stream: &UnixStream, buffer: &mut [u8]| {
            let mut stream = stream;
            let outcome = stream.read(buffer);
            matches!(outcome, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        };
        self.lock()
            .retain(|present| is_silent(&present.stream, buffer));
        let _ = stopped.set_nonblocking(true);
        !is_silent(stopped, buffer)
    }

    /// Sleeps until somebody comes or leaves, or the end is asked for.
    fn wait(&self, listener: &UnixListener, stopped: &UnixStream) {
        let guests: Vec<Arc<UnixStream>> = self
            .lock()
            .iter()
            .map(|present| present.stream.clone())
            .collect();
        let own = [listener.as_fd(), stopped.as_fd()].into_iter();
        let all = own.chain(guests.iter().map(|stream| stream.as_fd()));
        let mut wanted: Vec<PollFd<'_>> =
            all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut wanted, PollTimeout::NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendezvous::connect;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    #[derive(Debug)]
    struct Counting(Mutex<Sender<()>>);

    #[derive(Debug)]
    struct Left(Sender<()>);

    impl Drop for Left {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    impl Host for Counting {
        type Guest = Left;

        fn welcome(&self, mut stream: &UnixStream) -> Option<Left> {
            stream.write_all(b"w").ok()?;
            Some(Left(self.0.lock().unwrap().clone()))
        }
    }

    fn reception(name: &str) -> (Reception<Counting>, std::sync::mpsc::Receiver<()>, String) {
        let (tell, told) = channel();
        let socket = format!("perigee-reception-{name}-{}", std::process::id());
        let reception = Reception::open(&socket, "meet", Counting(Mutex::new(tell))).unwrap();
        (reception, told, socket)
    }

    fn meet(socket: &str) -> UnixStream {
        let mut stream = connect(socket, Instant::now() + LONG).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.read_exact(&mut [0; 1]).unwrap();
        stream
    }

    #[test]
    fn a_guest_that_leaves_is_forgotten_and_one_that_stays_is_told_news_and_dismissed() {
        let (reception, told, socket) = reception("stay");
        let (leaves, mut stays) = (meet(&socket), meet(&socket));
        drop(leaves);
        told.recv_timeout(LONG).unwrap();
        reception.announce();
        stays.read_exact(&mut [0; 1]).unwrap();
        assert_eq!(reception.dismiss().len(), 1);
        assert_eq!(stays.read(&mut [0; 1]).unwrap(), 0, "the end");
        meet(&socket);
    }

    #[test]
    fn the_end_of_a_reception_ends_its_connections() {
        let (reception, _told, socket) = reception("end");
        let mut stays = meet(&socket);
        drop(reception);
        assert_eq!(stays.read(&mut [0; 1]).unwrap(), 0);
        assert!(connect(&socket, Instant::now() + LONG).is_err());
    }
}
