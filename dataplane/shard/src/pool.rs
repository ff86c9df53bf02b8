//! Executors that ended shards gave back, for the next shard of this process. A library inside an
//! interpreter may be opened and closed many times; threads, descriptors and locked memory stay at
//! the most ever used at once.

use crate::executor::error::ExecutorError;
use crate::executor::{ExecutorOptions, start};
use crate::mailbox::Mailbox;
use std::sync::Mutex;

static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

struct Idle {
    process: u32,
    options: ExecutorOptions,
    mailbox: Mailbox,
}

/// An idle executor with these options, or a new one.
pub(crate) fn take(options: &ExecutorOptions) -> Result<Mailbox, ExecutorError> {
    let process = std::process::id();
    let mut idle = IDLE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Threads do not survive a fork: what the parent left here is not ours.
    idle.retain(|entry| entry.process == process);
    match idle.iter().position(|entry| entry.options == *options) {
        Some(index) => Ok(idle.swap_remove(index).mailbox),
        None => {
            drop(idle);
            start(options)
        }
    }
}

/// Gives an executor without tasks back.
pub(crate) fn give_back(options: ExecutorOptions, mailbox: Mailbox) {
    let process = std::process::id();
    IDLE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Idle {
        process,
        options,
        mailbox,
    });
}
