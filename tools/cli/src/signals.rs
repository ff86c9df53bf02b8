//! The signals that ask for an end. Invariant: they are blocked before the first thread is made, or
//! one of those threads would end the process without a farewell.

use nix::sys::signal::{SigSet, Signal};
use std::io;

/// Blocks SIGTERM and SIGINT in this thread and all it starts.
pub(crate) fn block_stop_signals() -> io::Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    Ok(signals)
}
