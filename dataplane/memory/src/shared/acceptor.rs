//! The thread of an owner that accepts guests and keeps their connections open.
//! Invariant: a guest stays listed as long as its process lives and neither side has ended the
//! connection, so asking all listed guests asks every process that may still have a mapping.

use super::connection::GuestConnection;
use super::source::SegmentSource;
use crate::limits::{ACCEPT_PAUSE_MS, GUESTS_MAX};
use crate::rendezvous::error::RendezvousError;
use crate::rendezvous::listen;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A listening socket and the guests that have come.
#[derive(Debug)]
pub(super) struct Acceptor {
    shared: Arc<AcceptorState>,
    /// Its end wakes the thread.
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct AcceptorState {
    source: Arc<dyn SegmentSource>,
    guests: Mutex<Vec<GuestConnection>>,
}

impl Acceptor {
    /// Listens under `socket` in the abstract namespace.
    ///
    /// # Errors
    /// The name is taken or has no usable length, or the thread cannot be started.
    pub(super) fn open(
        socket: &str,
        source: Arc<dyn SegmentSource>,
    ) -> Result<Self, RendezvousError> {
        let listener = listen(socket)?;
        listener.set_nonblocking(true)?;
        let (stop, stopped) = UnixStream::pair()?;
        stopped.set_nonblocking(true)?;
        let shared = Arc::new(AcceptorState { source, guests: Mutex::default() });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("perigee-owner".to_owned())
            .spawn(move || theirs.serve(&listener, &stopped))?;
        Ok(Self { shared, stop, thread: Some(thread) })
    }

    /// Takes the segments back from all guests, and returns those.
    pub(super) fn revoke_all(&self) -> Vec<GuestConnection> {
        let guests = std::mem::take(&mut *self.shared.lock());
        guests.iter().for_each(GuestConnection::revoke);
        guests
    }

    /// Lets no guest in any more, takes the segments back from all, and returns those.
    pub(super) fn stop(mut self) -> Vec<GuestConnection> {
        self.end_thread();
        self.revoke_all()
    }

    fn end_thread(&mut self) {
        let _ = self.stop.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Tells all guests that there is more to be handed out.
    pub(super) fn announce(&self) {
        self.shared.lock().iter().for_each(GuestConnection::announce);
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.end_thread();
        self.revoke_all();
    }
}

impl AcceptorState {
    fn lock(&self) -> MutexGuard<'_, Vec<GuestConnection>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, listener: &UnixListener, stopped: &UnixStream) {
        loop {
            if self.wait(listener, stopped) {
                return;
            }
            self.lock().retain(GuestConnection::is_silent);
            match listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Out of descriptors: the socket stays readable, so a look at once would spin.
                Err(_) => std::thread::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)),
            }
        }
    }

    /// The list is locked until the guest is on it: a revocation either finds it there, or has
    /// changed what it is handed.
    fn admit(&self, stream: UnixStream) {
        let mut guests = self.lock();
        if guests.len() < GUESTS_MAX {
            guests.extend(GuestConnection::admit(stream, &*self.source));
        }
    }

    /// Sleeps until a guest comes or leaves; true if the end was asked for.
    fn wait(&self, listener: &UnixListener, stopped: &UnixStream) -> bool {
        let stream = |guest: &GuestConnection| guest.stream().clone();
        let guests: Vec<_> = self.lock().iter().map(stream).collect();
        let own = [stopped.as_fd(), listener.as_fd()].into_iter();
        let all = own.chain(guests.iter().map(|stream| stream.as_fd()));
        let mut wanted: Vec<PollFd<'_>> =
            all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut wanted, PollTimeout::NONE);
        wanted[0].any().unwrap_or(true)
    }
}
