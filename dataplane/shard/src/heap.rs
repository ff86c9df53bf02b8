//! The heap of the C library, as far as a daemon must know it.
//! Invariant: what was freed after a flood goes back to the kernel; what small blocks leave is kept
//! for the next ones.
#![expect(unsafe_code, reason = "it sets bounds of the C library's heap")]

/// Blocks of so many bytes are mappings of their own, which end when they are freed.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK_BYTES: i32 = 128 << 10;
/// Free bytes at the end of the heap beyond which they are given back.
#[cfg(target_env = "gnu")]
const FREE_END_BYTES: i32 = 1 << 20;

/// Makes freed memory go back to the kernel. Without it the library raises both bounds to the
/// largest block that was ever freed, up to 32 MiB and twice that, and one flood of large frames
/// stays resident for good. To be called before threads are started.
pub fn give_back_freed() {
    #[cfg(target_env = "gnu")]
    for (bound, bytes) in
        [(libc::M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES), (libc::M_TRIM_THRESHOLD, FREE_END_BYTES)]
    {
        // SAFETY: it sets one number of the library under the library's own lock.
        let is_set = unsafe { libc::mallopt(bound, bytes) } == 1;
        debug_assert!(is_set, "the library knows this bound");
    }
}

/// Gives back what is free now, wherever it lies. It looks at every free block, and threads that
/// allocate may wait for it: call it after much was freed, not every second.
pub fn give_back_now() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
