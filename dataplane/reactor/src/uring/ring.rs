//! The ring itself: submit, flush, reap. Single-threaded by the kernel's SINGLE_ISSUER contract.
#![expect(unsafe_code, reason = "it hands entries to the ring")]

use super::entry::entry;
use super::registered::RegisteredBuffers;
use super::sends::FlyingSends;
use super::setup::builder;
use crate::attempt::{SyscallOutcome, attempt};
use crate::limits::RING_ENTRIES;
use crate::message::Message;
use crate::operation::{Finished, Operation};
use crate::slot::SlotTable;
use crate::submitted::Submitted;
use crate::turn_budget::TurnBudget;
use io_uring::{IoUring, opcode, types};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::RawFd;
use std::task::Waker;
use std::time::Duration;

/// One shard's ring.
pub(crate) struct Ring {
    io: RefCell<IoUring>,
    registered: RefCell<RegisteredBuffers>,
    slots: RefCell<SlotTable>,
    sends: RefCell<FlyingSends>,
    turn: TurnBudget,
    in_flight: Cell<usize>,
    bell: RawFd,
    bell_watched: Cell<bool>,
    bell_rang: Cell<bool>,
}

impl Ring {
    /// A ring whose [`Ring::wait`] also ends when `bell` is readable, an eventfd that must outlive
    /// it.
    pub(crate) fn new(bell: RawFd) -> io::Result<Self> {
        Ok(Self {
            io: RefCell::new(builder().build(RING_ENTRIES)?),
            registered: RefCell::default(),
            slots: RefCell::default(),
            sends: RefCell::default(),
            turn: TurnBudget::default(),
            in_flight: Cell::new(0),
            bell,
            bell_watched: Cell::new(false),
            bell_rang: Cell::new(false),
        })
    }

    /// Registers memory for operations on files. Returns the buffer's number.
    pub(crate) fn register(&self, memory: Message) -> io::Result<u16> {
        self.registered.borrow_mut().add(&self.io.borrow().submitter(), memory)
    }

    /// Lets go of memory, also of operations on it that the kernel has not seen yet: those go to it
    /// first.
    pub(crate) fn unregister(&self, number: u16) -> io::Result<()> {
        self.flush()?;
        self.registered.borrow_mut().remove(&self.io.borrow().submitter(), number)
    }

    /// Queues an operation; it reaches the kernel with the next [`Ring::flush`]. A short message
    /// that its socket takes is sent here and now: an answer through the ring costs another turn.
    pub(crate) fn submit(&self, mut operation: Operation) -> Submitted {
        if self.turn.is_left() && self.sends.borrow().may_go_at_once(&operation) {
            match attempt(&mut operation) {
                SyscallOutcome::Done(code) => {
                    self.turn.spend(usize::try_from(code).unwrap_or(0));
                    return Submitted::Finished(Finished::new(code, operation));
                }
                SyscallOutcome::Waiting(moved) => self.turn.spend(moved),
            }
        }
        let slot = match self.slots.borrow_mut().insert(operation) {
            Ok(slot) => slot,
            Err(operation) => {
                return Submitted::Finished(Finished::new(-libc::EAGAIN, operation));
            }
        };
        match self.push(slot) {
            Ok(()) => self.begin(slot),
            Err(code) => drop(self.slots.borrow_mut().land(slot, code)),
        }
        Submitted::Flying(slot)
    }

    /// Hands queued operations to the kernel and lets it post completions. One system call, or none
    /// if nothing is due.
    ///
    /// # Errors
    /// The kernel refused the call for a reason other than a full completion queue or a signal.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut io = self.io.borrow_mut();
        let (queued, due) = {
            let mut submission = io.submission();
            submission.sync();
            (submission.len(), submission.taskrun() || submission.cq_overflow())
        };
        if queued == 0 && !due {
            return Ok(());
        }
        // SAFETY: no signal mask is passed; queued entries point to memory owned by their slots.
        let entered =
            unsafe { io.submitter().enter::<libc::sigset_t>(queued as u32, 0, GETEVENTS, None) };
        match entered {
            Ok(_) => Ok(()),
            Err(error) if is_transient(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sleeps until something completes, the bell is rung or `limit` has passed. The kernel looks
    /// for completions before it sleeps, so none is missed.
    ///
    /// A shard sleeps here rather than on an eventfd that the ring signals: some kernels lose such
    /// signals, those that another eventfd or a device's worker caused.
    ///
    /// # Errors
    /// The kernel refused the call for a reason other than a full completion queue, a signal or the
    /// limit.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        if !self.bell_watched.get() && !self.watch_bell() {
            return self.flush();
        }
        let io = self.io.borrow();
        let waited = match limit.map(types::Timespec::from) {
            Some(limit) => {
                let arguments = types::SubmitArgs::new().timespec(&limit);
                io.submitter().submit_with_args(1, &arguments)
            }
            None => io.submitter().submit_and_wait(1),
        };
        match waited {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            Err(error) if is_transient(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the bell was rung since this was last asked. It stays rung until its eventfd is
    /// read.
    pub(crate) fn take_bell(&self) -> bool {
        self.bell_rang.take()
    }

    /// Lets the bell end the next wait; false if the submission queue is full.
    fn watch_bell(&self) -> bool {
        let watch = opcode::PollAdd::new(types::Fd(self.bell), libc::POLLIN as u32).build();
        let mut io = self.io.borrow_mut();
        // SAFETY: the entry points to no memory.
        let pushed = unsafe { io.submission().push(&watch.user_data(BELL)) }.is_ok();
        self.bell_watched.set(pushed);
        pushed
    }

    /// Collects completions and wakes their futures; returns how many came. Begins a new turn.
    pub(crate) fn reap(&self) -> usize {
        self.turn.renew();
        let mut count = 0;
        while let Some((slot, code)) = self.next_completion() {
            count += 1;
            let Some(code) = self.resume(slot, code) else {
                continue;
            };
            self.end(slot);
            let waker = self.slots.borrow_mut().land(slot, code);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        count
    }

    /// Operations that the kernel still owns.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    pub(crate) fn poll_slot(&self, slot: u32, waker: &Waker) -> Option<Finished> {
        self.slots.borrow_mut().poll(slot, waker)
    }

    /// The future of an operation was dropped. A watch on a descriptor would last as long as the
    /// descriptor, so it is taken back; other operations end by themselves.
    pub(crate) fn abandon(&self, slot: u32) {
        let is_watch = {
            let mut slots = self.slots.borrow_mut();
            slots.abandon(slot);
            matches!(slots.operation(slot), Some(Operation::Readable(_)))
        };
        if is_watch {
            let cancel = opcode::AsyncCancel::new(u64::from(slot)).build();
            let mut io = self.io.borrow_mut();
            // With a full submission queue the watch stays until its descriptor is readable.
            // SAFETY: the entry points to no memory.
            let _ = unsafe { io.submission().push(&cancel.user_data(CANCEL)) };
        }
    }

    /// The operation of a slot is in flight.
    fn begin(&self, slot: u32) {
        self.in_flight.set(self.in_flight.get() + 1);
        if let Some(operation) = self.slots.borrow_mut().operation(slot) {
            self.sends.borrow_mut().begin(operation);
        }
    }

    /// The kernel is done with the operation of a slot.
    fn end(&self, slot: u32) {
        self.in_flight.set(self.in_flight.get() - 1);
        if let Some(operation) = self.slots.borrow_mut().operation(slot) {
            self.sends.borrow_mut().end(operation);
        }
    }

    fn next_completion(&self) -> Option<(u32, i32)> {
        let mut io = self.io.borrow_mut();
        loop {
            let entry = io.completion().next()?;
            match entry.user_data() {
                CANCEL => {}
                BELL => {
                    self.bell_watched.set(false);
                    self.bell_rang.set(true);
                }
                slot => return Some((slot as u32, entry.result())),
            }
        }
    }

    /// Continues an operation that the kernel carried out only in part. Returns the outcome, or
    /// `None` if the message is under way again.
    fn resume(&self, slot: u32, code: i32) -> Option<i32> {
        let moved = match usize::try_from(code) {
            Ok(moved) if moved > 0 => moved,
            _ => return Some(code),
        };
        let more = match self.slots.borrow_mut().operation(slot) {
            Some(operation) => operation.advance(moved),
            None => false,
        };
        if more { self.push(slot).err() } else { Some(code) }
    }

    /// Queues a slot's operation; the error is the code it lands with, for the kernel has not seen
    /// it.
    fn push(&self, slot: u32) -> Result<(), i32> {
        let entry = match self.slots.borrow_mut().operation(slot) {
            Some(operation) => entry(operation, &self.registered.borrow()),
            None => return Ok(()),
        };
        let entry = entry.user_data(u64::from(slot));
        loop {
            let mut io = self.io.borrow_mut();
            // SAFETY: the entry points only to memory owned by its slot, which outlives the
            // operation.
            if unsafe { io.submission().push(&entry) }.is_ok() {
                break;
            }
            drop(io);
            if let Err(error) = self.flush() {
                tracing::error!(%error, "io_uring refused queued operations");
                return Err(-error.raw_os_error().unwrap_or(libc::EIO));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Ring")
            .field("in_flight", &self.in_flight.get())
            .finish_non_exhaustive()
    }
}

const GETEVENTS: u32 = 1;
/// Marks completions of cancellations, which no future waits for.
const CANCEL: u64 = u64::MAX;
/// Marks completions of the watch on the bell.
const BELL: u64 = u64::MAX - 1;

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EINTR | libc::EAGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Backend, choice};
    use crate::limits::{SENT_AT_ONCE_BYTES_MAX, TURN_BYTES, TURN_OPERATION_BYTES};
    use crate::operation::SocketHandle;
    use nix::sys::eventfd::EventFd;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_short_message_goes_at_once_unless_one_before_it_is_on_its_way() {
        if choice().unwrap().backend != Backend::IoUring {
            println!("SKIP: shards do not run on io_uring here");
            return;
        }
        let bell = EventFd::new().unwrap();
        let ring = Ring::new(bell.as_raw_fd()).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let socket = SocketHandle::new(ours.into());
        let send = |byte: u8, bytes: usize| {
            let mut message = Message::new();
            message.push_owned(vec![byte; bytes]);
            ring.submit(Operation::SendMessage(socket.clone(), Box::new(message)))
        };
        let is_over = |submitted: &Submitted| matches!(submitted, Submitted::Finished(_));
        let long = SENT_AT_ONCE_BYTES_MAX + 1;
        assert!(is_over(&send(1, 10)) && ring.in_flight() == 0);
        assert!(!is_over(&send(2, long)), "a long one goes through the ring");
        assert!(!is_over(&send(3, 10)), "the ring has one of this socket");
        let mut received = vec![0; 10 + long];
        while ring.in_flight() > 0 {
            ring.wait(Some(Duration::from_millis(1))).unwrap();
            ring.reap();
            theirs.set_nonblocking(true).unwrap();
            let _ = theirs.read(&mut received);
        }
        let most = TURN_BYTES / TURN_OPERATION_BYTES;
        let at_once = (0..2 * most).take_while(|_| is_over(&send(4, 10))).count();
        assert!(at_once > 0, "all before it have gone");
        assert!(at_once <= most, "others get their turn");
    }

    #[test]
    fn what_a_full_socket_does_not_take_goes_on_through_the_ring() {
        if choice().unwrap().backend != Backend::IoUring {
            println!("SKIP: shards do not run on io_uring here");
            return;
        }
        let bell = EventFd::new().unwrap();
        let ring = Ring::new(bell.as_raw_fd()).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let socket = SocketHandle::new(ours.into());
        let mut sent = Vec::new();
        while ring.in_flight() == 0 {
            let bytes = vec![(sent.len() / 1000 % 251) as u8; 30_000];
            sent.extend_from_slice(&bytes);
            let mut message = Message::new();
            message.push_owned(bytes);
            ring.submit(Operation::SendMessage(socket.clone(), Box::new(message)));
        }
        let mut received = vec![0; sent.len()];
        theirs.set_nonblocking(true).unwrap();
        let mut filled = 0;
        while filled < sent.len() {
            ring.wait(Some(Duration::from_millis(1))).unwrap();
            ring.reap();
            filled += theirs.read(&mut received[filled..]).unwrap_or(0);
        }
        assert!(received == sent, "in order, each byte once");
        while ring.in_flight() > 0 {
            ring.wait(Some(Duration::from_millis(1))).unwrap();
            ring.reap();
        }
    }
}
