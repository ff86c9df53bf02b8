//! Bounds of the loader.

/// Bytes of the kernel's type information that are read.
pub(crate) const KERNEL_TYPES_BYTES_MAX: u64 = 64 << 20;
/// Turns of the agent within which a control group becomes known as ours whose round trips are
/// counted from the first one on; those of up to twice as many turns may be.
pub(crate) const LEARNED_TURNS: u32 = 10;
