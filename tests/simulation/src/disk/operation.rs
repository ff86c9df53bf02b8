//! What a disk is asked to do. Invariant: memory of an operation is touched when it ends, not
//! before.

use super::SECTOR_BYTES;
use super::behaviour::Fate;
use super::stored_file::StoredFile;
use crate::random::Random;
use crate::slot::Slot;
use perigee_shard::Message;
use std::io;

/// How an operation ended, and the memory it used.
pub(crate) type DiskResult = (io::Result<usize>, Option<Message>);

/// What is asked of a file.
#[derive(Debug)]
pub(crate) enum DiskWork {
    Read(Message, u64),
    Write(Message, u64),
    Sync,
    Allocate(u64),
}

/// An operation on its way.
pub(crate) struct DiskTask {
    pub(crate) file: u64,
    /// The process that asked.
    pub(crate) life: u64,
    pub(crate) work: DiskWork,
    /// Writes of the file that had ended when it began.
    pub(crate) covered: u64,
    pub(crate) slot: Slot<DiskResult>,
}

impl std::fmt::Debug for DiskTask {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DiskTask").field("work", &self.work).finish_non_exhaustive()
    }
}

impl DiskWork {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Read(..) => "disk reads",
            Self::Write(..) => "disk writes",
            Self::Sync => "disk syncs",
            Self::Allocate(_) => "disk allocates",
        }
    }

    pub(crate) fn into_message(self) -> Option<Message> {
        match self {
            Self::Read(message, _) | Self::Write(message, _) => Some(message),
            Self::Sync | Self::Allocate(_) => None,
        }
    }
}

impl DiskTask {
    pub(super) fn carry_out(
        &mut self,
        file: &mut StoredFile,
        free_bytes: u64,
        fate: Fate,
        random: &Random,
    ) -> io::Result<usize> {
        let failure = || io::Error::from_raw_os_error(5);
        let fails = fate == Fate::Fails;
        match &mut self.work {
            DiskWork::Read(..) if fails => Err(failure()),
            DiskWork::Read(message, offset) => {
                let bytes = file.read(*offset, message.bytes() as u64);
                Ok(message.fill_bytes(&bytes))
            }
            DiskWork::Write(message, offset) => {
                let mut bytes = Vec::new();
                message.take_bytes(&mut bytes, usize::MAX);
                if fails {
                    // Some of it may be there.
                    let sectors = bytes.len() as u64 / SECTOR_BYTES;
                    bytes.truncate((random.below(sectors + 1) * SECTOR_BYTES) as usize);
                }
                let more = (*offset + bytes.len() as u64).saturating_sub(file.length);
                if more > free_bytes {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                match fate {
                    // Lost, or in the wrong place.
                    Fate::Lies if random.one_in(2) => {}
                    Fate::Lies => {
                        let sectors = file.length / SECTOR_BYTES + 1;
                        file.write(random.below(sectors) * SECTOR_BYTES, &bytes);
                    }
                    Fate::Done | Fate::Fails => file.write(*offset, &bytes),
                }
                if fails { Err(failure()) } else { Ok(bytes.len()) }
            }
            DiskWork::Sync if fails => {
                file.lose_unsafe(self.covered, random);
                Err(failure())
            }
            DiskWork::Sync => {
                file.sync(self.covered);
                Ok(0)
            }
            DiskWork::Allocate(bytes) => {
                if bytes.saturating_sub(file.length) > free_bytes {
                    return Err(io::Error::from_raw_os_error(28));
                }
                file.length = file.length.max(*bytes);
                Ok(0)
            }
        }
    }
}
