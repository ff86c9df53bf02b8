//! The way from any thread to a disk's shard. Invariant: the disk ends when nothing can ask it any
//! more.

use super::command::DiskCommand;
use super::driver::DiskDriver;
use perigee_shard::{Environment, Local, Post};

/// The way to a disk's shard.
pub(super) trait Door: Send + Sync {
    fn post(&self, command: DiskCommand);
}

/// The way over a mailbox.
pub(super) struct ShardDoor<E: Environment> {
    pub(super) mailbox: E::Mailbox,
    pub(super) driver: Local<DiskDriver<E>>,
}

impl<E: Environment> Door for ShardDoor<E> {
    fn post(&self, command: DiskCommand) {
        let name = self.driver;
        self.mailbox.post(Box::new(move |environment: &E| {
            if let Some(driver) = environment.local(name) {
                driver.take(command);
            }
        }));
    }
}

impl<E: Environment> Drop for ShardDoor<E> {
    fn drop(&mut self) {
        self.post(DiskCommand::Close(None));
    }
}
