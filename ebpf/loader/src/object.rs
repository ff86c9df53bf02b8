//! The compiled probes, as `build.rs` left them.

/// An object has to be aligned to be parsed.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/probes.o")));

/// The object; empty when this build has none.
pub(crate) fn bytes() -> &'static [u8] {
    &OBJECT.0
}

/// Whether this build has probes at all.
pub fn is_built() -> bool {
    !bytes().is_empty()
}
