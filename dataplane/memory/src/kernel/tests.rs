//! Every kernel this machine has, against the bitwise definition.
//! Invariant: each kernel is named, never chosen by the machine, so none goes untested by accident.

use proptest::prelude::*;

use super::{Kernel, KernelWork, RunStart, fence};
use crate::checksum::raw_state::RawState;

/// CRC-32C by a bytewise table built here, independent of the code under test.
pub(crate) fn bytewise(bytes: &[u8]) -> u32 {
    static TABLE: std::sync::LazyLock<[u32; 256]> =
        std::sync::LazyLock::new(|| {
            std::array::from_fn(|byte| {
                (0..8).fold(byte as u32, |crc, _| {
                    if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 }
                })
            })
        });
    !bytes.iter().fold(u32::MAX, |crc, byte| TABLE[((crc as u8) ^ byte) as usize] ^ (crc >> 8))
}

pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

const MARK: u8 = 0xA5;
const MARGIN: usize = 160;

/// Copies `len` bytes between the given misalignments and checks sum, copy and both margins.
fn check(kernel: Kernel, work: KernelWork, src_at: usize, dst_at: usize, len: usize) {
    let source = noise(src_at + len, len as u64 + 17);
    let source = &source[src_at..];
    let mut room = vec![MARK; MARGIN + 64 + len + MARGIN];
    let from = MARGIN + (room.as_ptr().addr() + MARGIN).wrapping_neg() % 64 + dst_at;
    assert!(from + len <= room.len());
    let dst = room[from..].as_mut_ptr();
    let start = if len.is_multiple_of(2) { RunStart::Cold } else { RunStart::Continued };
    // SAFETY: both runs were sized for `len` bytes; the kernel was checked to be available.
    let state = unsafe { kernel.run(work, dst, source.as_ptr(), len, start, RawState::START) };
    fence();
    let what = format!("{kernel:?} {work:?} src+{src_at} dst+{dst_at} len {len}");
    assert_eq!(state.finish(), bytewise(source), "{what}");
    let written = if work == KernelWork::Sum { 0 } else { len };
    assert_eq!(&room[from..from + written], &source[..written], "{what}");
    let untouched = |bytes: &[u8]| bytes.iter().all(|&byte| byte == MARK);
    assert!(untouched(&room[..from]), "before {what}");
    assert!(untouched(&room[from + written..]), "after {what}");
}

const WORKS: [KernelWork; 3] = [KernelWork::Sum, KernelWork::Copy, KernelWork::Stream];

fn available() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.into_iter().filter(|kernel| kernel.is_available())
}

#[test]
fn every_kernel_is_right_for_every_short_length() {
    for kernel in available() {
        for work in WORKS {
            for len in 0..900 {
                check(kernel, work, len % 7, len % 61, len);
            }
        }
    }
}

#[test]
fn every_kernel_is_right_for_every_alignment() {
    for kernel in available() {
        for work in WORKS {
            for at in 0..64 {
                check(kernel, work, 0, at, 7000 + at);
                check(kernel, work, at, 0, 7000);
                check(kernel, work, at, 63 - at, 3333);
            }
        }
    }
}

#[test]
fn a_run_may_be_continued_at_any_point() {
    let bytes = noise(5000, 3);
    for kernel in available() {
        for cut in (0..5000).step_by(37) {
            let (a, b) = bytes.split_at(cut);
            let null = std::ptr::null_mut();
            // SAFETY: slices are readable, `Sum` ignores the destination.
            let state = unsafe {
                let state = kernel.run(
                    KernelWork::Sum,
                    null,
                    a.as_ptr(),
                    a.len(),
                    RunStart::Cold,
                    RawState::START,
                );
                kernel.run(KernelWork::Sum, null, b.as_ptr(), b.len(), RunStart::Continued, state)
            };
            assert_eq!(state.finish(), bytewise(&bytes), "{kernel:?} cut at {cut}");
        }
    }
}

#[test]
fn copy_without_sum_moves_exactly_the_bytes() {
    for kernel in available() {
        for len in (0..2000).chain([65536, 70001]) {
            let source = noise(len, 5);
            let mut room = vec![MARK; len + 64];
            let at = len % 33;
            // SAFETY: `at + len` is within the room.
            unsafe { kernel.copy_only(room[at..].as_mut_ptr(), source.as_ptr(), len) };
            fence();
            assert_eq!(&room[at..at + len], &source[..], "{kernel:?} {len}");
            assert!(room[..at].iter().chain(&room[at + len..]).all(|&byte| byte == MARK));
        }
    }
}

#[test]
fn the_best_kernel_is_available() {
    assert!(Kernel::best().is_available());
    assert_eq!(available().next(), Some(Kernel::best()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_kernel_is_right_for_long_runs(
        len in 0usize..200_000, src_at in 0usize..64, dst_at in 0usize..64,
    ) {
        for kernel in available() {
            for work in WORKS {
                check(kernel, work, src_at, dst_at, len);
            }
        }
    }
}
