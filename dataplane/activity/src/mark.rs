//! The mark that a probe can be put on: called once for every finished batch, costs about a
//! nanosecond without a probe.
//!
//! It is an out-of-line stub that begins with a no-op of one byte. A probe on a plain function may
//! be single-stepped, which costs 15 us a hit; one that is inlined may have its red zone
//! overwritten by the kernel. A probe on a no-op of five bytes becomes a call on Linux 6.18: it is
//! twice as fast, but a fork copies the call without the trampoline that it goes to, and the child
//! dies at its next batch. `readelf -n` shows the mark as `perigee:batch_done`.

use perigee_schemas::{Direction, Route};

const NAME_BYTES: usize = 32;

/// What a probe sees of a finished batch. The layout is an interface to the probes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BatchMark {
    /// Operations of the batch.
    pub operations: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// From submission to the first byte on its way.
    pub queue_ns: u64,
    /// On the wire, the peer's answer included.
    pub wire_ns: u64,
    /// On a disk of this host.
    pub disk_ns: u64,
    /// The part of `wire_ns` that the connection does not explain ([`crate::Link::record`]). 0 over
    /// RDMA, where the peer's NIC answers and no program of it.
    pub peer_ns: u64,
    /// The way bytes took.
    pub route: u32,
    /// 0 towards this process, 1 away from it.
    pub direction: u32,
    /// Status code, 0 when all went well.
    pub status: i32,
    reserved: u32,
    nic: [u8; NAME_BYTES],
    peer: [u8; 64],
    tenant: [u8; NAME_BYTES],
}

impl BatchMark {
    /// A mark of a batch without numbers. Names that are too long are cut.
    pub fn new(route: Route, direction: Direction, nic: &str, peer: &str, tenant: &str) -> Self {
        Self {
            operations: 0,
            bytes: 0,
            queue_ns: 0,
            wire_ns: 0,
            disk_ns: 0,
            peer_ns: 0,
            route: route as u32,
            direction: direction as u32,
            status: 0,
            reserved: 0,
            nic: padded(nic),
            peer: padded(peer),
            tenant: padded(tenant),
        }
    }
}

/// Zero-terminated and zero-filled.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    for (slot, byte) in bytes[..N - 1].iter_mut().zip(text.bytes()) {
        *slot = byte;
    }
    bytes
}

/// Shows a finished batch to an attached probe.
#[inline]
pub fn batch_done(mark: &BatchMark) {
    perigee_batch_done(mark);
}

/// Address of the mark in this process.
pub fn batch_done_address() -> usize {
    perigee_batch_done as *const () as usize
}

/// A no-op that a kernel can put a probe on: one byte, which stays a breakpoint on every kernel.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn perigee_batch_done(mark: &BatchMark) {
    std::arch::naked_asm!(
        "990: nop",
        "ret",
        ".pushsection .note.stapsdt, \"\", @note",
        ".balign 4",
        ".4byte 992f-991f, 994f-993f, 3",
        "991: .asciz \"stapsdt\"",
        "992: .balign 4",
        "993: .8byte 990b",
        ".8byte _.stapsdt.base",
        ".8byte 0",
        ".asciz \"perigee\"",
        ".asciz \"batch_done\"",
        ".asciz \"8@%rdi\"",
        "994: .balign 4",
        ".popsection",
        ".ifndef _.stapsdt.base",
        ".pushsection .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat",
        ".weak _.stapsdt.base",
        ".hidden _.stapsdt.base",
        "_.stapsdt.base: .space 1",
        ".size _.stapsdt.base, 1",
        ".popsection",
        ".endif",
    )
}

/// A no-op that a kernel can put a probe on.
#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
extern "C" fn perigee_batch_done(mark: &BatchMark) {
    std::hint::black_box(mark);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_zero_however_long_they_are() {
        let long = "x".repeat(200);
        let mark = BatchMark::new(Route::Tcp, Direction::Read, &long, &long, "t");
        assert_eq!((mark.nic[30], mark.nic[31], mark.peer[63]), (b'x', 0, 0));
        assert_eq!(&mark.tenant[..2], b"t\0");
    }

    #[test]
    fn the_layout_is_the_one_probes_read() {
        assert_eq!(size_of::<BatchMark>(), 192);
        assert_eq!(std::mem::offset_of!(BatchMark, nic), 64);
        assert_eq!(std::mem::offset_of!(BatchMark, peer), 96);
        assert_eq!(std::mem::offset_of!(BatchMark, tenant), 160);
    }

    #[test]
    fn marking_changes_nothing() {
        let mark = BatchMark::new(Route::Rdma, Direction::Write, "mlx5_0", "10.0.0.1:1", "");
        batch_done(&mark);
        assert_ne!(batch_done_address(), 0);
    }
}
