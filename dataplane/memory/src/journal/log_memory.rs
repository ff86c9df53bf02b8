//! The memory of a journal, as far as the journal needs it.

use std::io;

/// Memory that outlives a crash of its writer. Ranges that a caller names lie inside.
pub trait LogMemory {
    /// All of it.
    fn bytes(&self) -> &[u8];

    /// Makes sure that the bytes from `start` to `end` can be written.
    ///
    /// # Errors
    /// There is no memory for them.
    fn reserve(&mut self, start: usize, end: usize) -> io::Result<()>;

    /// Writes bytes that are reserved. A crash may leave any part of them written.
    fn write(&mut self, at: usize, bytes: &[u8]);

    /// Writes a word that is reserved, `at` a multiple of eight, after all that was written before.
    /// A crash leaves all or nothing of it written.
    fn store(&mut self, at: usize, word: u64);

    /// Makes the bytes from `start` to `end` zeros and gives their memory back where it can. They
    /// are to be reserved again before they are written.
    ///
    /// # Errors
    /// There is no memory for zeros.
    fn clear(&mut self, start: usize, end: usize) -> io::Result<()>;
}
