//! The epoll set of a shard: submit, look, carry on, wait.
//!
//! A descriptor is watched only while operations wait for it, for one event at a time
//! (EPOLLONESHOT): what the kernel says late about a descriptor that was closed meets an empty
//! queue, or an operation that just tries again. The invariant: an operation that waits is in the
//! queue of its descriptor, and the descriptor is armed for its direction.
#![expect(unsafe_code, reason = "it borrows descriptors that operations own")]

use super::alarm::Alarm;
use super::file_threads::FileThreads;
use super::queues::{Interest, Queues};
use crate::attempt::{SyscallOutcome, attempt};
use crate::limits::EVENTS_PER_LOOK;
use crate::operation::{Finished, Operation};
use crate::slot::SlotTable;
use crate::submitted::Submitted;
use crate::turn_budget::TurnBudget;
use nix::errno::Errno;
use nix::sys::epoll::{self, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::task::Waker;
use std::time::Duration;

/// Marks events of the bell.
const BELL: u64 = u64::MAX;
/// Marks events of the alarm.
const ALARM: u64 = u64::MAX - 1;

/// Marks events of the threads for files.
const FILES: u64 = u64::MAX - 2;

/// One shard's epoll set.
pub(crate) struct Epoll {
    set: epoll::Epoll,
    alarm: Alarm,
    slots: RefCell<SlotTable>,
    queues: RefCell<Queues>,
    /// What the kernel said and was not acted on yet.
    events: RefCell<VecDeque<(RawFd, EpollFlags)>>,
    in_flight: Cell<usize>,
    turn: TurnBudget,
    bell_rang: Cell<bool>,
    files: FileThreads,
    files_rang: Cell<bool>,
}

impl Epoll {
    /// A set whose [`Epoll::wait`] also ends when `bell` is readable, an eventfd that must outlive
    /// it.
    pub(crate) fn new(bell: RawFd) -> io::Result<Self> {
        let set = epoll::Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let alarm = Alarm::new()?;
        // SAFETY: the caller keeps the bell open for longer than this set.
        let bell = unsafe { BorrowedFd::borrow_raw(bell) };
        set.add(bell, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        set.add(&alarm, EpollEvent::new(EpollFlags::EPOLLIN, ALARM))?;
        let files = FileThreads::new()?;
        set.add(files.event(), EpollEvent::new(EpollFlags::EPOLLIN, FILES))?;
        Ok(Self {
            set,
            alarm,
            slots: RefCell::default(),
            queues: RefCell::default(),
            events: RefCell::default(),
            in_flight: Cell::new(0),
            turn: TurnBudget::default(),
            bell_rang: Cell::new(false),
            files,
            files_rang: Cell::new(false),
        })
    }

    /// Tries an operation at once; what is left of it goes on when its descriptor is ready. Beyond
    /// what a turn may move it waits for the next turn, so that a peer that is always ready does
    /// not keep others waiting.
    pub(crate) fn submit(&self, mut operation: Operation) -> Submitted {
        if matches!(operation, Operation::File(_)) {
            return self.submit_to_threads(operation);
        }
        let (fd, direction) = (operation.descriptor(), Interest::of(&operation));
        if self.turn.is_left() && self.queues.borrow().is_empty(fd, direction) {
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
        self.in_flight.set(self.in_flight.get() + 1);
        self.queues.borrow_mut().push(fd, direction, slot);
        self.arm(fd);
        Submitted::Flying(slot)
    }

    fn submit_to_threads(&self, operation: Operation) -> Submitted {
        let slot = match self.slots.borrow_mut().insert(operation) {
            Ok(slot) => slot,
            Err(operation) => {
                return Submitted::Finished(Finished::new(-libc::EAGAIN, operation));
            }
        };
        self.in_flight.set(self.in_flight.get() + 1);
        if let Err(code) = self.order(slot) {
            self.land_file(slot, code);
        }
        Submitted::Flying(slot)
    }

    /// Has a thread carry out the next step of the operation in a slot.
    fn order(&self, slot: u32) -> Result<(), i32> {
        match self.slots.borrow_mut().operation(slot) {
            Some(Operation::File(operation)) => self.files.order(slot, operation),
            _ => Ok(()),
        }
    }

    /// A thread has done a step: what is left goes on.
    fn step_done(&self, slot: u32, code: i32) {
        let moved = usize::try_from(code).unwrap_or(0);
        let is_partial = moved > 0
            && self.slots.borrow_mut().operation(slot).is_some_and(|it| it.advance(moved));
        if !is_partial {
            self.land_file(slot, code);
        } else if let Err(code) = self.order(slot) {
            self.land_file(slot, code);
        }
    }

    fn land_file(&self, slot: u32, code: i32) {
        self.in_flight.set(self.in_flight.get() - 1);
        let waker = self.slots.borrow_mut().land(slot, code);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Looks which descriptors are ready and carries their operations on; returns how many moved.
    /// Begins a new turn.
    pub(crate) fn reap(&self) -> usize {
        self.turn.renew();
        if self.in_flight.get() > 0
            && let Err(error) = self.look(EpollTimeout::ZERO)
        {
            tracing::error!(%error, "epoll failed; transfers of this shard wait until it works again");
        }
        let mut moved = 0;
        if self.files_rang.take() {
            for (slot, code) in self.files.take_done() {
                self.step_done(slot, code);
                moved += 1;
            }
        }
        loop {
            // Not kept borrowed: what is carried on may end other operations.
            let event = self.events.borrow_mut().pop_front();
            let Some((fd, flags)) = event else {
                return moved;
            };
            moved += self.carry_on(fd, flags);
        }
    }

    /// Sleeps until a descriptor is ready, the bell is rung or `limit` has passed.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        if !self.events.borrow().is_empty() || self.files_rang.get() {
            return Ok(());
        }
        if limit.is_some_and(|limit| limit.is_zero()) {
            return self.look(EpollTimeout::ZERO);
        }
        self.alarm.set(limit)?;
        self.look(EpollTimeout::NONE)
    }

    /// Whether the bell was rung since this was last asked. It stays rung until its eventfd is
    /// read.
    pub(crate) fn take_bell(&self) -> bool {
        self.bell_rang.take()
    }

    /// Operations that wait.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    pub(crate) fn poll_slot(&self, slot: u32, waker: &Waker) -> Option<Finished> {
        self.slots.borrow_mut().poll(slot, waker)
    }

    /// The future of an operation was dropped. What is being sent is sent to its end, as on a ring,
    /// and a thread has what is asked of a file; everything else is taken back at once.
    pub(crate) fn abandon(&self, slot: u32) {
        let mut slots = self.slots.borrow_mut();
        let Some(operation) = slots.operation(slot) else {
            return slots.abandon(slot);
        };
        if matches!(operation, Operation::SendMessage(..) | Operation::File(_)) {
            return slots.abandon(slot);
        }
        let (fd, direction) = (operation.descriptor(), Interest::of(operation));
        let operation = slots.cancel(slot);
        drop(slots);
        self.queues.borrow_mut().remove(fd, direction, slot);
        self.in_flight.set(self.in_flight.get() - 1);
        drop(operation);
    }

    /// Asks the kernel which descriptors are ready.
    fn look(&self, timeout: EpollTimeout) -> io::Result<()> {
        let mut found = [EpollEvent::empty(); EVENTS_PER_LOOK];
        let count = match self.set.wait(&mut found, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        let mut events = self.events.borrow_mut();
        for event in &found[..count] {
            match event.data() {
                BELL => self.bell_rang.set(true),
                ALARM => {}
                FILES => self.files_rang.set(true),
                fd => events.push_back((fd as RawFd, event.events())),
            }
        }
        Ok(())
    }

    /// Goes on with the operations that wait for a descriptor, and watches it for those that still
    /// wait.
    fn carry_on(&self, fd: RawFd, flags: EpollFlags) -> usize {
        let mut moved = 0;
        for direction in Interest::BOTH {
            if direction.is_in(flags) {
                moved += self.drain(fd, direction);
            }
        }
        self.arm(fd);
        moved
    }

    fn drain(&self, fd: RawFd, direction: Interest) -> usize {
        let mut moved = 0;
        loop {
            let head = self.queues.borrow().head(fd, direction);
            let Some(slot) = head else { return moved };
            let tried = self.slots.borrow_mut().operation(slot).map(attempt);
            match tried {
                Some(SyscallOutcome::Waiting(bytes)) => return moved + usize::from(bytes > 0),
                Some(SyscallOutcome::Done(code)) => self.land(fd, direction, slot, code),
                None => self.queues.borrow_mut().remove(fd, direction, slot),
            }
            moved += 1;
        }
    }

    fn land(&self, fd: RawFd, direction: Interest, slot: u32, code: i32) {
        self.queues.borrow_mut().remove(fd, direction, slot);
        self.in_flight.set(self.in_flight.get() - 1);
        let waker = self.slots.borrow_mut().land(slot, code);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Has the kernel tell once when a descriptor is ready for what waits for it. If it cannot,
    /// that ends with its error.
    fn arm(&self, fd: RawFd) {
        let wanted = self.queues.borrow().wanted(fd);
        if wanted.is_empty() {
            return;
        }
        let mut event = EpollEvent::new(wanted | EpollFlags::EPOLLONESHOT, fd as u64);
        // SAFETY: the operations that wait keep the descriptor open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
        let armed = match self.set.modify(descriptor, &mut event) {
            Err(Errno::ENOENT) => self.set.add(descriptor, event),
            other => other,
        };
        if let Err(errno) = armed {
            self.refuse(fd, errno);
        }
    }

    fn refuse(&self, fd: RawFd, errno: Errno) {
        for direction in Interest::BOTH {
            loop {
                let head = self.queues.borrow().head(fd, direction);
                let Some(slot) = head else { break };
                self.land(fd, direction, slot, -(errno as i32));
            }
        }
    }
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Epoll")
            .field("in_flight", &self.in_flight.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{TURN_BYTES, TURN_OPERATION_BYTES};
    use nix::sys::eventfd::EventFd;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_is_always_ready_leaves_the_next_turn_to_others() {
        let (bell, ready) = (EventFd::new().unwrap(), EventFd::from_value(1).unwrap());
        let epoll = Epoll::new(bell.as_raw_fd()).unwrap();
        let look = || epoll.submit(Operation::Readable(ready.as_raw_fd()));
        for _ in 0..2 {
            let tries = 0..2 * TURN_BYTES / TURN_OPERATION_BYTES;
            let at_once = tries.take_while(|_| matches!(look(), Submitted::Finished(_))).count();
            assert!(at_once > 0 && at_once <= TURN_BYTES / TURN_OPERATION_BYTES, "{at_once}");
            assert_eq!(epoll.in_flight(), 1, "the rest of them waits");
            assert_eq!(epoll.reap(), 1, "and goes on in the next turn");
        }
    }
}
