//! Offsets of kernel structures, set by the loader, and reads at them.

use aya_ebpf::helpers::bpf_probe_read_kernel;

macro_rules! offsets {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])* #[unsafe(no_mangle)] pub static $name: u32 = 0;)*
    };
}

offsets! {
    /// `sock.__sk_common.skc_bound_dev_if` is rarely set, so the interface of received packets is taken.
    SOCK_RX_INTERFACE,
    SKB_DEVICE,
    DEVICE_INDEX,
    REQUEST_QUEUE,
    REQUEST_START_NS,
    REQUEST_FLAGS,
    QUEUE_DISK,
    DISK_MAJOR,
    DISK_MINOR,
    TASK_PID,
    TASK_STATE,
}

/// The value the loader set. Volatile, because the compiler only sees the zero.
#[inline(always)]
pub fn offset(name: &'static u32) -> usize {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::read_volatile(name) as usize }
}

/// Reads a value in kernel memory.
#[inline(always)]
pub fn read<T>(base: *const u8, offset: usize) -> Option<T> {
    if base.is_null() {
        return None;
    }
    // SAFETY: the helper checks the address itself and fails on a bad one.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(offset).cast::<T>()).ok() }
}
