//! The eBPF programs. Each file is one part of the host that they look at.
//!
//! Nothing about a kernel is compiled in: the loader reads offsets from the running kernel's BTF
//! and sets them in [`kernel`]. The invariant: a probe only counts; it never changes a packet, a
//! request or a thread.
#![no_std]
#![no_main]

mod block;
mod kernel;
mod loss;
mod network;
mod task;
mod uring;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier refuses a program that can come here.
    loop {}
}

/// Helpers that read kernel memory are for programs under a licence compatible with the GPL.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
