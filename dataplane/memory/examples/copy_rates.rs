//! Measures the fused copy-and-sum against the plain copy of the same cold blocks (non-temporal from
//! 4 KiB on, with the same prefetching), from a segment to a host buffer and back.
//! Invariant: the two are alternated block by block with fresh random places, so that neither finds
//! warmer memory or a quieter machine than the other; only medians and their ratio are reported.

use std::hint::black_box;
use std::time::Instant;

use perigee_memory::checksum::crc32c_raw;
use perigee_memory::copy::{copy_blocks, copy_streaming, copy_with_checksum};
use perigee_memory::kernel::Kernel;
use perigee_memory::limits::BLOCK_BYTES;
use perigee_memory::segment::SegmentOptions;
use perigee_memory::{ChecksumCopier, HostBuffer, Segment};

const BUFFER_BYTES: usize = 512 << 20;
const SIZES_BYTES: [usize; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20];
/// Bytes moved per size and variant, spread over the alternations.
const BYTES_PER_CELL: usize = 24 << 30;
const ROUNDS_MIN: usize = 101;
const ROUNDS_MAX: usize = 20_001;

/// A xorshift generator: places must differ, not be unpredictable.
struct Places(u64);

impl Places {
    /// An offset for `len` bytes in a buffer, a multiple of 4 KiB as objects have.
    fn next(&mut self, len: usize) -> usize {
        self.below((BUFFER_BYTES - len) / 4096 + 1) * 4096
    }

    /// Puts the variants of one round in a random order.
    fn shuffle(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            order.swap(last, self.below(last + 1));
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}

/// One way of moving bytes: its name and its body `(dst, src, len, block sums)`.
type Variant = (
    &'static str,
    unsafe fn(*mut u8, *const u8, usize, &mut Vec<u32>),
);

unsafe fn plain(dst: *mut u8, src: *const u8, len: usize, _: &mut Vec<u32>) {
    // SAFETY: the caller's promises.
    unsafe { copy_streaming(dst, src, len) };
}

unsafe fn fused(dst: *mut u8, src: *const u8, len: usize, _: &mut Vec<u32>) {
    // SAFETY: the caller's promises.
    black_box(unsafe { copy_with_checksum(dst, src, len) });
}

unsafe fn fused_blocks(dst: *mut u8, src: *const u8, len: usize, blocks: &mut Vec<u32>) {
    // SAFETY: the caller's promises.
    black_box(unsafe { copy_blocks(dst, src, len, BLOCK_BYTES, blocks) });
}

unsafe fn fused_avx2(dst: *mut u8, src: *const u8, len: usize, blocks: &mut Vec<u32>) {
    let mut copier = ChecksumCopier::new(len, BLOCK_BYTES, blocks).with_kernel(Kernel::Avx2);
    // SAFETY: the caller's promises.
    unsafe { copier.copy(dst, src, len) };
    black_box(copier.finish());
}

unsafe fn fused_sse42(dst: *mut u8, src: *const u8, len: usize, blocks: &mut Vec<u32>) {
    let mut copier = ChecksumCopier::new(len, BLOCK_BYTES, blocks).with_kernel(Kernel::Sse42);
    // SAFETY: the caller's promises.
    unsafe { copier.copy(dst, src, len) };
    black_box(copier.finish());
}

unsafe fn two_passes(dst: *mut u8, src: *const u8, len: usize, _: &mut Vec<u32>) {
    // SAFETY: the caller's promises.
    unsafe {
        dst.copy_from_nonoverlapping(src, len);
        black_box(crc32c_raw(dst, len));
    }
}

unsafe fn libc_copy(dst: *mut u8, src: *const u8, len: usize, _: &mut Vec<u32>) {
    // SAFETY: the caller's promises.
    unsafe { dst.copy_from_nonoverlapping(src, len) };
    black_box(dst);
}

unsafe fn sum_only(_: *mut u8, src: *const u8, len: usize, _: &mut Vec<u32>) {
    // SAFETY: the caller's promises.
    black_box(unsafe { crc32c_raw(src, len) });
}

const VARIANTS: [Variant; 8] = [
    ("plain copy", plain),
    ("fused", fused),
    ("fused, blocks", fused_blocks),
    ("blocks, AVX2", fused_avx2),
    ("blocks, SSE4.2", fused_sse42),
    ("memcpy", libc_copy),
    ("memcpy + sum", two_passes),
    ("sum only", sum_only),
];

fn median(times_ns: &mut [u64]) -> f64 {
    times_ns.sort_unstable();
    times_ns[times_ns.len() / 2] as f64
}

/// Median ns of each variant for blocks of `len` bytes.
fn measure(len: usize, src: *const u8, dst: *mut u8, places: &mut Places) -> Vec<f64> {
    let rounds = (BYTES_PER_CELL / VARIANTS.len() / len).clamp(ROUNDS_MIN, ROUNDS_MAX);
    let mut times_ns = vec![Vec::with_capacity(rounds); VARIANTS.len()];
    let mut blocks = Vec::new();
    let mut order: Vec<usize> = (0..VARIANTS.len()).collect();
    for _ in 0..rounds {
        places.shuffle(&mut order);
        for &index in &order {
            let to = dst.wrapping_add(places.next(len));
            let from = src.wrapping_add(places.next(len));
            let start = Instant::now();
            // SAFETY: places leave room for `len` bytes in either buffer.
            unsafe { VARIANTS[index].1(to, from, len, &mut blocks) };
            times_ns[index].push(start.elapsed().as_nanos() as u64);
        }
    }
    times_ns.iter_mut().map(|times| median(times)).collect()
}

#[expect(
    clippy::print_stdout,
    reason = "the report is what this program is for"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let segment = Segment::create(BUFFER_BYTES as u64, &SegmentOptions::default())?;
    let buffer = HostBuffer::allocate(BUFFER_BYTES)?;
    for base in [segment.base(), buffer.base()] {
        // SAFETY: both are this long, and nobody else has them.
        unsafe { base.write_bytes(0x5A, BUFFER_BYTES) };
    }
    println!(
        "kernel {:?}; GB/s by median, and ratio to the plain copy",
        Kernel::best()
    );
    for (direction, src, dst) in [
        ("get", segment.base(), buffer.base()),
        ("put", buffer.base(), segment.base()),
    ] {
        let mut places = Places(0x9E37_79B9_7F4A_7C15);
        for len in SIZES_BYTES {
            let medians_ns = measure(len, src, dst, &mut places);
            println!("{direction} {} KiB", len >> 10);
            for ((name, _), ns) in VARIANTS.iter().zip(&medians_ns) {
                println!(
                    "  {name:<14} {:6.2} GB/s  {:5.3}",
                    len as f64 / ns,
                    medians_ns[0] / ns
                );
            }
        }
    }
    Ok(())
}
