//! A few threads that carry out operations on files for one shard: epoll cannot wait for a disk.
//! Invariant: the memory of an order belongs to its slot, which stays until the order is done.
#![expect(unsafe_code, reason = "it calls the kernel with memory that slots own")]

use crate::file_operation::{FileOperation, FileWork};
use crate::limits::{FILE_THREAD_IDLE, FILE_THREADS_MAX};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The threads, and what lies between them and the shard.
pub(super) struct FileThreads {
    shared: Arc<SharedOrders>,
}

struct SharedOrders {
    orders: Mutex<Orders>,
    ready: Condvar,
    /// Slots and the codes they land with.
    done: Mutex<Vec<(u32, i32)>>,
    event: EventFd,
}

#[derive(Default)]
struct Orders {
    queue: VecDeque<FileOrder>,
    threads: usize,
    idle: usize,
    is_over: bool,
}

/// An operation as another thread carries it out.
struct FileOrder {
    slot: u32,
    file: RawFd,
    call: FileCall,
}

enum FileCall {
    Read(Vec<libc::iovec>, u64),
    Write(Vec<libc::iovec>, u64),
    Sync,
    Allocate(u64),
}

// SAFETY: the ranges are memory that the operation owns or that its maker vouched for, and the
// operation stays in its slot, as does its file, until the order is done.
unsafe impl Send for FileOrder {}

impl FileThreads {
    pub(super) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_value_and_flags(0, flags)?;
        let shared = SharedOrders {
            orders: Mutex::default(),
            ready: Condvar::new(),
            done: Mutex::default(),
            event,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Readable when orders are done.
    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Hands an operation in a slot to a thread.
    ///
    /// # Errors
    /// There is no thread, and none can be made: the code that the operation lands with.
    pub(super) fn order(&self, slot: u32, operation: &FileOperation) -> Result<(), i32> {
        let call = match &operation.work {
            FileWork::Read(message, offset) => FileCall::Read(message.vector().to_vec(), *offset),
            FileWork::Write(message, offset) => FileCall::Write(message.vector().to_vec(), *offset),
            FileWork::Sync => FileCall::Sync,
            FileWork::Allocate(bytes) => FileCall::Allocate(*bytes),
        };
        let mut orders = lock(&self.shared.orders);
        if orders.idle <= orders.queue.len() && orders.threads < FILE_THREADS_MAX {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("perigee-file".to_owned());
            match thread.spawn(move || shared.work()) {
                Ok(_) => orders.threads += 1,
                Err(_) if orders.threads > 0 => {}
                Err(error) => return Err(-error.raw_os_error().unwrap_or(libc::EAGAIN)),
            }
        }
        orders.queue.push_back(FileOrder { slot, file: operation.file.as_raw_fd(), call });
        self.shared.ready.notify_one();
        Ok(())
    }

    /// What is done since this was last asked.
    pub(super) fn take_done(&self) -> Vec<(u32, i32)> {
        // Read first: what is done afterwards makes it readable again.
        let _ = self.shared.event.read();
        std::mem::take(&mut *lock(&self.shared.done))
    }
}

impl Drop for FileThreads {
    fn drop(&mut self) {
        lock(&self.shared.orders).is_over = true;
        self.shared.ready.notify_all();
    }
}

impl SharedOrders {
    fn work(&self) {
        while let Some(order) = self.next() {
            let code = carry_out(&order);
            lock(&self.done).push((order.slot, code));
            // The counter cannot overflow: it is read with what is done.
            let _ = self.event.write(1);
        }
    }

    /// The next order; `None` when the thread should end.
    fn next(&self) -> Option<FileOrder> {
        let mut orders = lock(&self.orders);
        orders.idle += 1;
        loop {
            if let Some(order) = orders.queue.pop_front() {
                orders.idle -= 1;
                return Some(order);
            }
            let waited = self.ready.wait_timeout(orders, FILE_THREAD_IDLE);
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            orders = next;
            if orders.is_over || (timeout.timed_out() && orders.queue.is_empty()) {
                orders.idle -= 1;
                orders.threads -= 1;
                return None;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One step of an order; the code is that of the kernel.
fn carry_out(order: &FileOrder) -> i32 {
    loop {
        // SAFETY: the ranges are valid until the order is done.
        let result = unsafe {
            match &order.call {
                FileCall::Read(ranges, offset) => {
                    libc::preadv64(order.file, ranges.as_ptr(), ranges.len() as i32, *offset as i64)
                }
                FileCall::Write(ranges, offset) => libc::pwritev64(
                    order.file,
                    ranges.as_ptr(),
                    ranges.len() as i32,
                    *offset as i64,
                ),
                FileCall::Sync => libc::fdatasync(order.file) as isize,
                FileCall::Allocate(bytes) => {
                    libc::fallocate64(order.file, 0, 0, *bytes as i64) as isize
                }
            }
        };
        match Errno::result(result) {
            Err(Errno::EINTR) => {}
            Err(errno) => return -(errno as i32),
            Ok(moved) => return i32::try_from(moved).unwrap_or(i32::MAX),
        }
    }
}
