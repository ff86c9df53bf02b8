//! Memory that goes away before and during copies, and the handlers of others.
//! Invariant: what would end the process is played in a child of its own.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use super::*;
use crate::ByteRangeMut;
use crate::checksum::crc32c_raw;
use crate::copy::{
    ChecksumCopier, checksum_pieces, copy_few, copy_streaming, gather_blocks, load_word,
    scatter_blocks, store_word,
};
use crate::kernel::Kernel;
use crate::limits::BLOCK_BYTES;
use crate::mapping::{Mapping, page_bytes};

const PAGES: usize = 40;

/// Pages of which one has been taken away.
struct Gap {
    pages: Mapping,
    /// First byte that is not there.
    at: usize,
}

impl Gap {
    fn new(rights: libc::c_int) -> Self {
        let pages = Mapping::anonymous(PAGES * page_bytes()).unwrap();
        let at = pages.base().addr() + (PAGES - 2) * page_bytes();
        // SAFETY: the page belongs to the mapping, and nothing uses it but what is tested.
        assert_eq!(unsafe { libc::mprotect(at as *mut _, page_bytes(), rights) }, 0);
        Self { pages, at }
    }

    /// A range of `len` bytes, most of which lie before the gap.
    fn over(&self, len: usize) -> *mut u8 {
        self.pages.base().with_addr(self.at - len + len.div_ceil(5))
    }
}

fn gone_at(result: Result<impl std::fmt::Debug, MemoryGone>) -> usize {
    result.expect_err("some of it is not there").address
}

#[test]
fn copies_and_sums_of_every_kind_end_where_memory_has_gone() {
    let (closed, frozen) = (Gap::new(libc::PROT_NONE), Gap::new(libc::PROT_READ));
    let mut own = vec![1u8; PAGES * page_bytes()];
    let page = |gap: &Gap, address: usize| (gap.at..gap.at + page_bytes()).contains(&address);
    // The sum may begin anywhere, so lengths cover loops, heads and tails of the kernels.
    for len in [1, 7, 64, 100, 255, 4096, 4099, 65_536, 100_001] {
        let (mine, none, constant) = (own.as_mut_ptr(), closed.over(len), frozen.over(len));
        let mut blocks = Vec::new();
        // SAFETY: all are memory of this process, and what is not there is what is tested.
        unsafe {
            assert!(page(&closed, gone_at(crc32c_raw(none, len))), "{len}");
            for copy in [copy_streaming, copy_few] {
                assert!(page(&closed, gone_at(copy(mine, none, len))), "{len}");
                assert!(page(&closed, gone_at(copy(none, mine, len))), "{len}");
                assert!(page(&frozen, gone_at(copy(constant, mine, len))), "{len}");
                assert_eq!(copy(mine, constant, len), Ok(()), "it may be read");
            }
            for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.is_available()) {
                for (to, from) in [(mine, none), (none, mine), (constant, mine)] {
                    let copier = ChecksumCopier::new(len, BLOCK_BYTES, &mut blocks);
                    let mut copier = copier.with_kernel(kernel);
                    copier.copy(to, from, len);
                    copier.copy(mine, constant, 1);
                    gone_at(copier.finish());
                }
            }
            let range = |ptr| ByteRangeMut { ptr, len };
            let pieces = [range(constant), range(none)];
            let sources = pieces.map(ByteRangeMut::cast_const);
            let mut both = vec![0; 2 * len];
            let gathered = gather_blocks(both.as_mut_ptr(), &sources, BLOCK_BYTES, &mut blocks);
            assert!(page(&closed, gone_at(gathered)), "{len}");
            let scattered = scatter_blocks(&pieces, both.as_ptr(), BLOCK_BYTES, &mut blocks);
            assert!(page(&frozen, gone_at(scattered)), "{len}");
            assert!(page(&closed, gone_at(checksum_pieces(&sources, BLOCK_BYTES, &mut blocks))));
        }
    }
    let word = closed.pages.base().with_addr(closed.at).cast();
    // SAFETY: as above.
    unsafe {
        assert_eq!(gone_at(load_word(word)), closed.at);
        assert_eq!(gone_at(store_word(word, 7)), closed.at);
    }
}

#[test]
fn a_file_that_was_cut_ends_a_copy_and_the_rest_of_it_can_be_read() {
    let file: File = tempfile::tempfile().unwrap();
    let bytes = 4 * page_bytes();
    file.set_len(bytes as u64).unwrap();
    let (rights, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping, which is never taken away.
    let base = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, rights, shared, file.as_raw_fd(), 0).cast::<u8>()
    };
    assert_ne!(base.addr(), usize::MAX);
    let mut own = vec![0u8; bytes];
    // SAFETY: the mapping is `bytes` long.
    unsafe {
        assert_eq!(copy_streaming(own.as_mut_ptr(), base, bytes), Ok(()));
        file.set_len(page_bytes() as u64).unwrap();
        let cut = base.addr() + page_bytes();
        assert_eq!(gone_at(copy_streaming(own.as_mut_ptr(), base, bytes)), cut);
        assert_eq!(gone_at(copy_streaming(base, own.as_ptr(), bytes)), cut);
        assert!((cut..cut + 64).contains(&gone_at(crc32c_raw(base, bytes))));
        assert!(crc32c_raw(base, page_bytes()).is_ok());
    }
}

#[test]
fn many_threads_lose_memory_at_once_and_go_on_with_what_they_had() {
    let gap = Gap::new(libc::PROT_NONE);
    let (at, gap) = (gap.at, &gap);
    std::thread::scope(|scope| {
        for number in 0..8u64 {
            scope.spawn(move || {
                // Values that live in registers across the call.
                let (mut sum, mut product, mut share) = (number, 1u64, 0.5f64);
                for round in 0..2000u64 {
                    let mut byte = 0u8;
                    let from = gap.pages.base().with_addr(at + (round as usize % page_bytes()));
                    // SAFETY: the byte is this thread's, the other what is tested.
                    let copied = unsafe { copy_few(&raw mut byte, from, 1) };
                    assert_eq!(gone_at(copied), from.addr());
                    sum = sum.wrapping_add(round);
                    product = product.wrapping_mul(round | 1);
                    share = share.mul_add(0.5, 0.25);
                }
                assert_eq!(sum, number + 1999 * 1000);
                assert_eq!(product, (0..2000u64).fold(1u64, |all, it| all.wrapping_mul(it | 1)));
                assert_eq!(share, 0.5);
            });
        }
    });
}

/// Plays something that may end the process, and returns how it ended: the code, or the signal.
fn in_child(play: impl FnOnce() -> i32) -> Result<i32, Signal> {
    // SAFETY: the child allocates at most, which the C library allows for after a fork.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let code = play();
            // SAFETY: it ends the child without the harness's clean-up.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => match waitpid(child, None).unwrap() {
            WaitStatus::Exited(_, code) => Ok(code),
            WaitStatus::Signaled(_, signal, _) => Err(signal),
            status => unreachable!("{status:?}"),
        },
    }
}

/// A handler of somebody else, installed as most are.
fn handle_faults(handler: extern "C" fn(libc::c_int)) {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the handler only ends the process or notes something.
        unsafe { libc::signal(signal, handler as *const () as usize) };
    }
}

fn copy_from(address: usize) -> Result<(), MemoryGone> {
    let mut byte = 0u8;
    // SAFETY: the byte is ours; the other is what is tested.
    unsafe { copy_few(&raw mut byte, address as *const u8, 1) }
}

fn touch(address: usize) {
    // SAFETY: there is none: it is to fault.
    unsafe { (address as *const u8).read_volatile() };
}

extern "C" fn end_with_7(_: libc::c_int) {
    // SAFETY: it ends the process.
    unsafe { libc::_exit(7) };
}

/// As Python's faulthandler: puts back what was before it, and sends the signal again.
extern "C" fn say_and_send_again(signal: libc::c_int) {
    static HAS_SAID: AtomicBool = AtomicBool::new(false);
    if HAS_SAID.swap(true, Ordering::Relaxed) {
        // SAFETY: it ends the process.
        unsafe { libc::_exit(9) };
    }
    // SAFETY: it sends a signal to this thread.
    unsafe { libc::raise(signal) };
}

#[test]
fn a_fault_that_is_not_ours_ends_the_process_as_before() {
    let gap = Gap::new(libc::PROT_NONE);
    let plain = in_child(|| {
        // SAFETY: this takes Rust's own handler away, which would print.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        assert!(copy_from(gap.at).is_err());
        touch(gap.at);
        0
    });
    assert_eq!(plain, Err(Signal::SIGSEGV));
    let sent = in_child(|| {
        // SAFETY: as above; then the signal is sent as `kill` does.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        assert!(copy_from(gap.at).is_err());
        // SAFETY: it sends a signal to this thread.
        unsafe { libc::raise(libc::SIGSEGV) };
        0
    });
    assert_eq!(sent, Err(Signal::SIGSEGV));
}

#[test]
fn handlers_of_others_get_their_faults_and_never_ours() {
    let gap = Gap::new(libc::PROT_NONE);
    for is_earlier in [true, false] {
        let ended = in_child(|| {
            if !is_earlier {
                assert!(copy_from(gap.at).is_err());
            }
            handle_faults(end_with_7);
            handler::look(1);
            for _ in 0..3 {
                assert!(copy_from(gap.at).is_err());
            }
            touch(gap.at);
            0
        });
        assert_eq!(ended, Ok(7), "earlier: {is_earlier}");
    }
}

#[test]
fn a_handler_that_sends_the_signal_again_ends_the_process_and_does_not_go_round() {
    let gap = Gap::new(libc::PROT_NONE);
    let ended = in_child(|| {
        // SAFETY: this takes Rust's own handler away, which would print.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        handler::look(1);
        handle_faults(say_and_send_again);
        handler::look(2);
        touch(gap.at);
        0
    });
    assert_eq!(ended, Err(Signal::SIGSEGV));
}

#[test]
fn places_are_taken_back_a_bounded_number_of_times() {
    use crate::limits::FAULT_HANDLER_PLACES_MAX;
    let gap = Gap::new(libc::PROT_NONE);
    let ended = in_child(|| {
        for round in 1..=2 * FAULT_HANDLER_PLACES_MAX as u64 {
            handle_faults(end_with_7);
            handler::look(round);
        }
        let _ = copy_from(gap.at);
        0
    });
    assert_eq!(ended, Ok(7), "the other handler was left in its place");
}
