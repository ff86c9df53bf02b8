//! Byte ranges of this process's memory, from a caller's buffer to the kernel or the NIC.
//! Invariant: a range grants nothing. Touching its bytes is the unsafe act, not holding it.
#![expect(unsafe_code, reason = "pointers are sent between threads")]

/// Bytes to read: an address and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: usize,
}

/// Bytes to write, or to read and to write: an address and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRangeMut {
    /// First byte.
    pub ptr: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

// SAFETY: a range is only an address and a length; each use of it is an unsafe call of its own.
unsafe impl Send for ByteRange {}
// SAFETY: as above; it has no interior state.
unsafe impl Sync for ByteRange {}
// SAFETY: as for `ByteRange`.
unsafe impl Send for ByteRangeMut {}
// SAFETY: as for `ByteRange`.
unsafe impl Sync for ByteRangeMut {}

impl ByteRange {
    /// No bytes.
    pub(crate) const NOTHING: Self = Self { ptr: std::ptr::null(), len: 0 };

    /// The same for code that learns later whether it reads or writes. It must only read.
    #[must_use]
    pub fn cast_mut(self) -> ByteRangeMut {
        ByteRangeMut { ptr: self.ptr.cast_mut(), len: self.len }
    }
}

impl ByteRangeMut {
    /// A range by the numbers that devices, peers and other languages use. It may name no memory.
    #[must_use]
    pub fn at(address: u64, bytes: u64) -> Self {
        Self { ptr: address as *mut u8, len: bytes as usize }
    }

    /// Address of the first byte.
    #[must_use]
    pub fn address(self) -> u64 {
        self.ptr as u64
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.len as u64
    }

    /// The same, to be read.
    #[must_use]
    pub fn cast_const(self) -> ByteRange {
        ByteRange { ptr: self.ptr, len: self.len }
    }
}

impl From<&[u8]> for ByteRange {
    fn from(bytes: &[u8]) -> ByteRange {
        ByteRange { ptr: bytes.as_ptr(), len: bytes.len() }
    }
}

impl From<&mut [u8]> for ByteRangeMut {
    fn from(bytes: &mut [u8]) -> ByteRangeMut {
        ByteRangeMut { ptr: bytes.as_mut_ptr(), len: bytes.len() }
    }
}
