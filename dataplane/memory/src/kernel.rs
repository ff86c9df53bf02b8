//! The machine code that copies and sums in one pass, chosen once per process. Invariant: each
//! kernel loads every source byte exactly once, so the checksum it returns is that of the bytes it
//! stored even if the source changes during the copy.

use std::sync::LazyLock;

use crate::checksum::raw_state::RawState;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod lane;
mod portable;
#[cfg(target_arch = "x86_64")]
mod sse42;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(target_arch = "x86_64")]
mod words;

/// What a kernel does with the bytes it sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelWork {
    /// Nothing: the destination is ignored.
    Sum,
    /// Copies with ordinary stores.
    Copy,
    /// Copies with stores that bypass the caches; needs [`fence`] before others may look.
    Stream,
}

/// `KernelWork` as a constant parameter, so that each kernel is compiled once per kind of work.
type KernelMode = u8;
const SUM: KernelMode = 0;
const COPY: KernelMode = 1;
const STREAM: KernelMode = 2;

/// Where a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunStart {
    /// At bytes that were not near anything read before: worth prefetching.
    Cold,
    /// Where the run before it ended: the hardware prefetches already.
    Continued,
}

/// A way of copying and summing that this machine may or may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// 64-byte loads and stores, folded by VPCLMULQDQ.
    Avx512,
    /// 32-byte loads and stores, folded by PCLMULQDQ.
    Avx2,
    /// 8-byte steps on three interleaved streams of the CRC32 instruction.
    Sse42,
    /// Plain memory copy and table look-ups; every machine has it.
    Portable,
}

static BEST: LazyLock<Kernel> = LazyLock::new(|| {
    let available = Kernel::ALL.into_iter().find(|kernel| kernel.is_available());
    available.unwrap_or(Kernel::Portable)
});

impl Kernel {
    /// All kernels, the fastest first.
    pub const ALL: [Kernel; 4] = [Kernel::Avx512, Kernel::Avx2, Kernel::Sse42, Kernel::Portable];

    /// The fastest kernel of this machine.
    #[must_use]
    pub fn best() -> Kernel {
        *BEST
    }

    /// Whether this machine can run the kernel.
    #[must_use]
    #[cfg(target_arch = "x86_64")]
    pub fn is_available(self) -> bool {
        let sse42 = is_x86_feature_detected!("sse4.2");
        let carryless = sse42 && is_x86_feature_detected!("pclmulqdq");
        match self {
            Kernel::Avx512 => {
                carryless
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("vpclmulqdq")
            }
            Kernel::Avx2 => carryless && is_x86_feature_detected!("avx2"),
            Kernel::Sse42 => sse42,
            Kernel::Portable => true,
        }
    }

    /// Whether this machine can run the kernel.
    #[must_use]
    #[cfg(not(target_arch = "x86_64"))]
    pub fn is_available(self) -> bool {
        self == Kernel::Portable
    }

    /// Sums `len` bytes at `src` into `state` and, unless `work` is `Sum`, copies them to `dst`.
    ///
    /// # Safety
    /// The kernel must be available. `src` must be readable for `len` bytes. Unless `work` is
    /// `Sum`, `dst` must be writable for `len` bytes and must not overlap `src`. `start` is advice.
    pub(crate) unsafe fn run(
        self,
        work: KernelWork,
        dst: *mut u8,
        src: *const u8,
        len: usize,
        start: RunStart,
        state: RawState,
    ) -> RawState {
        debug_assert!(self.is_available(), "{self:?} is of this machine");
        // SAFETY: the caller's promises are those of the kernels.
        RawState(unsafe {
            match work {
                KernelWork::Sum => self.run_mode::<SUM>(dst, src, len, start, state.0),
                KernelWork::Copy => self.run_mode::<COPY>(dst, src, len, start, state.0),
                KernelWork::Stream => self.run_mode::<STREAM>(dst, src, len, start, state.0),
            }
        })
    }

    /// # Safety
    /// As [`Kernel::run`].
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_variables, reason = "`start` is advice that only one kernel takes")
    )]
    unsafe fn run_mode<const MODE: KernelMode>(
        self,
        dst: *mut u8,
        src: *const u8,
        len: usize,
        start: RunStart,
        state: u32,
    ) -> u32 {
        // SAFETY: the caller has checked that the kernel is available and vouches for the memory.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx512 => avx512::run::<MODE>(dst, src, len, start, state),
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2 => avx2::run::<MODE>(dst, src, len, state),
                #[cfg(target_arch = "x86_64")]
                Kernel::Sse42 => sse42::run::<MODE>(dst, src, len, state),
                _ => portable::run::<MODE>(dst, src, len, state),
            }
        }
    }

    /// Copies `len` bytes with streaming stores and no checksum; needs [`fence`] afterwards.
    ///
    /// # Safety
    /// As [`Kernel::run`] with `KernelWork::Stream`.
    pub(crate) unsafe fn copy_only(self, dst: *mut u8, src: *const u8, len: usize) {
        debug_assert!(self.is_available(), "{self:?} is of this machine");
        // SAFETY: as above.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx512 => avx512::copy_only(dst, src, len),
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2 => avx2::copy_only(dst, src, len),
                _ => dst.copy_from_nonoverlapping(src, len),
            }
        }
    }
}

/// Makes all streaming stores of this thread visible before anything it stores later.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of every x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
}

/// Asks for the line at `address`, which need not exist.
#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch of any address does nothing that a program can see.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Bytes from `address` to the next multiple of `line_bytes`, at most `len`.
#[cfg(target_arch = "x86_64")]
fn bytes_to_line(address: *mut u8, line_bytes: usize, len: usize) -> usize {
    (address.addr().wrapping_neg() % line_bytes).min(len)
}
