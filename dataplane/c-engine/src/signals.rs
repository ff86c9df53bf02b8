//! Ends engines on SIGINT and SIGTERM for programs that ask for it.
//!
//! A handler may not do that itself: it writes the signal's number into a pipe, and a thread ends
//! the engines, then the process. The invariant: signals that the program handles stay its own.

use crate::handle::ENGINES;
use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::{io, process, ptr, thread};

const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];
/// Exit code of a process that a signal ended, without its number.
const ENDED_BY_SIGNAL: i32 = 128;

/// Where the handler writes.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// The process whose thread reads it.
static WATCHED: AtomicU32 = AtomicU32::new(0);
static INSTALLING: Mutex<()> = Mutex::new(());

/// Ends all engines and the process on the two signals, unless the program handles them.
///
/// # Errors
/// The system refuses a pipe, a thread or a handler.
pub(crate) fn install() -> io::Result<()> {
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if WATCHED.load(Ordering::Acquire) == process::id() {
        return Ok(());
    }
    let (reader, writer) = pipe()?;
    thread::Builder::new().name("perigee-signals".to_owned()).spawn(move || watch(reader))?;
    // The handler writes to it until the process ends.
    PIPE.store(writer.into_raw_fd(), Ordering::Release);
    WATCHED.store(process::id(), Ordering::Release);
    SIGNALS.into_iter().try_for_each(handle)
}

/// Ends everything when a signal comes. The thread takes no signals that others should get.
fn watch(mut reader: File) {
    let mut number = [0u8];
    if reader.read_exact(&mut number).is_ok() {
        ENGINES.free_all();
        // SAFETY: the process ends as it would have ended by the signal, without handlers of
        // `exit()` that could wait for threads that run on.
        unsafe { libc::_exit(ENDED_BY_SIGNAL + i32::from(number[0])) }
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    // A forked child has the handler and not the thread.
    if WATCHED.load(Ordering::Acquire) != process::id() {
        // SAFETY: a handler may end the process.
        unsafe { libc::_exit(ENDED_BY_SIGNAL + signal) }
    }
    let number = signal.to_le_bytes();
    // SAFETY: a handler may write; the first byte of the number is all of it.
    unsafe { libc::write(PIPE.load(Ordering::Acquire), number.as_ptr().cast(), 1) };
}

fn handle(signal: libc::c_int) -> io::Result<()> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: it only asks what the present action is; zeros are a value of the structure.
    let before = unsafe {
        check(libc::sigaction(signal, ptr::null(), before.as_mut_ptr()))?;
        before.assume_init()
    };
    if before.sa_sigaction != libc::SIG_DFL {
        tracing::warn!(signal, "The program handles this signal itself; destroy its engines there");
        return Ok(());
    }
    let action = libc::sigaction {
        sa_sigaction: on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t,
        sa_flags: libc::SA_RESTART,
        ..before
    };
    // SAFETY: the handler does only what a handler may do.
    unsafe { check(libc::sigaction(signal, &raw const action, ptr::null_mut())) }
}

fn pipe() -> io::Result<(File, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: there is room for both numbers.
    unsafe { check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))? };
    // SAFETY: both are open and owned by this call alone.
    Ok(unsafe { (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
