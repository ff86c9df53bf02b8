//! The handler of SIGSEGV and SIGBUS, and its place before all others. Invariant: who handled
//! faults before us still gets every one that is not ours.
//!
//! Python's faulthandler and others may be installed later than we, and end the process. So we look
//! now and then whether we still come first, and take the place again, a bounded number of times:
//! two copies of this library in one process must not push each other aside for ever. They need not,
//! because either hands on what it does not know.

use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::limits::{FAULT_HANDLER_LOOK_MS, FAULT_HANDLER_PLACES_MAX};

use super::trampoline;

/// The signals of memory that cannot be touched.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Who handled a signal before us.
struct Earlier {
    /// When we came first. It knows nothing of us, so handing on to it ends.
    first: AtomicPtr<libc::sigaction>,
    /// When we came last; the same unless somebody came between.
    latest: AtomicPtr<libc::sigaction>,
    places: AtomicUsize,
}

impl Earlier {
    const fn new() -> Self {
        let nobody = std::ptr::null_mut();
        let (first, latest) = (AtomicPtr::new(nobody), AtomicPtr::new(nobody));
        Self { first, latest, places: AtomicUsize::new(0) }
    }
}

static EARLIER: [Earlier; 2] = [Earlier::new(), Earlier::new()];
/// When we looked last, in milliseconds; 0 for never.
static LOOKED_MS: AtomicU64 = AtomicU64::new(0);
/// Held by who looks.
static LOOKING: Mutex<()> = Mutex::new(());

/// Sees to it that faults come to us first; costs a look at the clock.
pub(super) fn stay_installed() {
    let now = coarse_ms();
    let looked = LOOKED_MS.load(Ordering::Relaxed);
    if looked == 0 || now.wrapping_sub(looked) >= FAULT_HANDLER_LOOK_MS {
        look(now.max(1));
    }
}

/// The clock of the last tick, which is good enough and read without a call of the kernel.
fn coarse_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists since Linux 2.6.32, and the kernel fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1000 + time.tv_nsec.cast_unsigned() / 1_000_000
}

/// Takes the first place where another has it.
pub(super) fn look(now: u64) {
    // In a child of a fork nothing may hold this for good; the next look does it then.
    let Ok(_looking) = LOOKING.try_lock() else {
        return;
    };
        for (signal, earlier) in SIGNALS.into_iter().zip(&EARLIER) {
        take_place(signal, earlier);
    }
    LOOKED_MS.store(now, Ordering::Relaxed);
}

fn take_place(signal: libc::c_int, earlier: &Earlier) {
    // SAFETY: all zeros are an action, and the kernel fills it.
    let mut current: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: this asks and changes nothing.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut current) };
    let ours: Handler = on_fault;
    let ours = ours as usize;
    let places = earlier.places.load(Ordering::Relaxed);
    if asked != 0 || current.sa_sigaction == ours || places >= FAULT_HANDLER_PLACES_MAX {
        return;
    }
    stay_loaded(ours);
    // Never freed: a thread may be handing a fault on to it at any time.
    let before = Box::into_raw(Box::new(current));
    earlier.latest.store(before, Ordering::Release);
    if places == 0 {
        earlier.first.store(before, Ordering::Release);
    }
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ours;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler does what may be done in one.
    let installed = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    debug_assert_eq!(installed, 0, "these signals may be handled");
    earlier.places.store(places + 1, Ordering::Relaxed);
    if places + 1 == FAULT_HANDLER_PLACES_MAX {
        tracing::warn!(
            signal,
            "Another handler takes this signal again and again; memory that goes away during a copy may now end the process"
        );
    }
}

/// A library that handles signals must not be unloaded: the handler would go with it.
fn stay_loaded(code: usize) {
    // SAFETY: all zeros are such a structure; the loader fills it and reads a text that it owns.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(code as *const libc::c_void, &raw mut found) != 0 {
            // The program itself is no library, and the loader says so.
            libc::dlopen(found.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

type Handler = unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// # Safety
/// Only the kernel calls it, or a handler that was called by it in the same way.
unsafe extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel vouches for both.
    let (told, interrupted) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    // What was sent by a process has a code of 0 or less, and no address.
    if told.si_code > 0 && is_ours(told, interrupted) {
        return;
    }
    let Some(index) = SIGNALS.iter().position(|it| *it == signal) else {
        return;
    };
    let earlier = &EARLIER[index];
    // A handler that was installed after us may hand on to us, or send the signal again: what comes
    // round ends at the one that knows nothing of us.
    let comes_round = HandingOn::is_under_way(info);
    let to = if comes_round || told.si_code <= 0 { &earlier.first } else { &earlier.latest };
    let action = to.load(Ordering::Acquire);
    if action.is_null() {
        return;
    }
    let _under_way = HandingOn::begin(info);
    // SAFETY: actions are never freed, and these were the kernel's arguments.
    unsafe { hand_on(&*action, (signal, info, context)) };
}

/// Whether this thread is inside a guarded call that named the address; it goes on behind the call
/// then.
fn is_ours(told: &libc::siginfo_t, interrupted: &mut libc::ucontext_t) -> bool {
    // SAFETY: a guard lives as long as the call during which it is the current one.
    let Some(guard) = (unsafe { trampoline::current().as_mut() }) else {
        return false;
    };
    // SAFETY: faults have an address.
    let address = unsafe { told.si_addr() }.addr();
    if !guard.covers(address) {
        return false;
    }
    guard.fault = address;
    trampoline::resume(interrupted, guard);
    true
}

/// # Safety
/// The arguments are those that the kernel gave.
unsafe fn hand_on(
    action: &libc::sigaction,
    (signal, info, context): (libc::c_int, *mut libc::siginfo_t, *mut libc::c_void),
) {
    match action.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the default action is always there. A fault is met again at once; what was
            // sent is sent again.
            unsafe {
                if (*info).si_code > 0 {
                    libc::signal(signal, libc::SIG_DFL);
                } else if action.sa_sigaction == libc::SIG_DFL {
                    libc::signal(signal, libc::SIG_DFL);
                    libc::raise(signal);
                }
            }
        }
        // SAFETY: the kernel would call it just so.
        handler if action.sa_flags & libc::SA_SIGINFO != 0 => unsafe {
            let handler: Handler = std::mem::transmute(handler);
            handler(signal, info, context);
        },
        // SAFETY: as above.
        handler => unsafe {
            let handler: unsafe extern "C" fn(libc::c_int) = std::mem::transmute(handler);
            handler(signal);
        },
    }
}

/// Faults that threads are handing on, by the place of what the kernel told of them, which is passed
/// from handler to handler. Invariant: an entry is there from before the call of another handler
/// until its return; what a handler that never returned has left is used again.
struct HandingOn(Option<&'static AtomicPtr<libc::siginfo_t>>);

static HANDED_ON: [AtomicPtr<libc::siginfo_t>; 16] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 16];

impl HandingOn {
    fn is_under_way(info: *mut libc::siginfo_t) -> bool {
        HANDED_ON.iter().any(|it| it.load(Ordering::Relaxed) == info)
    }

    fn begin(info: *mut libc::siginfo_t) -> Self {
        let take = |it: &&AtomicPtr<libc::siginfo_t>, held| {
            it.compare_exchange(held, info, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let left = HANDED_ON.iter().find(|it| take(it, info));
        Self(left.or_else(|| HANDED_ON.iter().find(|it| take(it, std::ptr::null_mut()))))
    }
}

impl Drop for HandingOn {
    fn drop(&mut self) {
        if let Some(entry) = self.0 {
            entry.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}
