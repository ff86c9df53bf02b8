//! What can be asked of a file. Invariant: an operation that has begun keeps its file and its
//! memory until the kernel has answered, however long a disk takes and whether its future still
//! waits.

use crate::message::Message;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A file that its operations keep open.
pub type FileHandle = Rc<OwnedFd>;

/// The smallest part of a file that a disk reads or writes.
const SECTOR_BYTES: usize = 512;

/// One request about a file, with the memory it needs.
#[derive(Debug)]
pub struct FileOperation {
    /// Open file that is read or written.
    pub file: FileHandle,
    /// What is asked.
    pub work: FileWork,
}

/// What is asked of a file.
#[derive(Debug)]
pub enum FileWork {
    /// Fills the message from this offset on, or as much of it as the file has.
    Read(Box<Message>, u64),
    /// Writes the whole message at this offset, or fails.
    Write(Box<Message>, u64),
    /// Makes what was written safe from a loss of power.
    Sync,
    /// Sees to room for so many bytes from the start of the file, which becomes at least as long.
    Allocate(u64),
}

impl FileOperation {
    /// Takes note that `moved` bytes were moved; whether the rest has to be asked for again. A read
    /// that ends within a sector has come to the end of the file.
    pub(crate) fn advance(&mut self, moved: usize) -> bool {
        match &mut self.work {
            FileWork::Read(message, offset) => {
                message.advance(moved);
                *offset += moved as u64;
                message.bytes() > 0 && moved.is_multiple_of(SECTOR_BYTES)
            }
            FileWork::Write(message, offset) => {
                message.advance(moved);
                *offset += moved as u64;
                message.bytes() > 0
            }
            FileWork::Sync | FileWork::Allocate(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(work: FileWork) -> FileOperation {
        let file = std::fs::File::open("/dev/null").unwrap();
        FileOperation { file: Rc::new(file.into()), work }
    }

    fn message(bytes: usize) -> Box<Message> {
        let mut message = Message::new();
        message.push_owned(vec![0; bytes]);
        Box::new(message)
    }

    #[test]
    fn a_read_goes_on_behind_whole_sectors_and_ends_with_the_file() {
        let mut reading = operation(FileWork::Read(message(4096), 8192));
        assert!(reading.advance(1024));
        assert!(matches!(&reading.work, FileWork::Read(left, 9216) if left.bytes() == 3072));
        assert!(!reading.advance(100), "the file ends here");
        let mut writing = operation(FileWork::Write(message(4096), 0));
        assert!(writing.advance(100), "a write is whole or fails");
        assert!(!writing.advance(3996));
    }
}
