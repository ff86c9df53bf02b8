//! Objects of a batch: a key, and where its bytes lie or go. Invariant: the memory is borrowed for
//! as long as the object exists.

use crate::slice::MemorySlice;
use perigee_store::CallerRange;
use std::marker::PhantomData;

/// An object to put: its bytes are the pieces in order.
#[derive(Debug)]
pub struct ObjectSource<'a> {
    pub(crate) key: &'a str,
    pub(crate) group: Option<&'a str>,
    pub(crate) pieces: Vec<CallerRange>,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> ObjectSource<'a> {
    /// An object without bytes yet.
    #[must_use]
    pub fn new(key: &'a str) -> Self {
        Self { key, group: None, pieces: Vec::new(), memory: PhantomData }
    }

    /// Appends bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &'a [u8]) -> Self {
        self.pieces.push(CallerRange::owned(bytes.as_ptr().expose_provenance(), bytes.len()));
        self
    }

    /// Appends a slice, of an accelerator too.
    #[must_use]
    pub fn slice(mut self, slice: &'a MemorySlice) -> Self {
        self.pieces.push(slice.caller_range());
        self
    }

    /// Names its group: objects of one group lie together and are evicted together.
    #[must_use]
    pub fn group(mut self, group: &'a str) -> Self {
        self.group = Some(group);
        self
    }
}

/// An object to get: its bytes are spread over the pieces in order.
#[derive(Debug)]
pub struct ObjectTarget<'a> {
    pub(crate) key: &'a str,
    pub(crate) pieces: Vec<CallerRange>,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> ObjectTarget<'a> {
    /// An object without room yet.
    #[must_use]
    pub fn new(key: &'a str) -> Self {
        Self { key, pieces: Vec::new(), memory: PhantomData }
    }

    /// Appends room.
    #[must_use]
    pub fn bytes(mut self, bytes: &'a mut [u8]) -> Self {
        let address = bytes.as_mut_ptr().expose_provenance();
        self.pieces.push(CallerRange::owned(address, bytes.len()));
        self
    }

    /// Appends a slice, of an accelerator too.
    #[must_use]
    pub fn slice(mut self, slice: &'a mut MemorySlice) -> Self {
        self.pieces.push(slice.caller_range());
        self
    }
}
