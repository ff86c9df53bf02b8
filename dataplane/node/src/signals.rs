//! SIGTERM and SIGINT as a message. Invariant: after the first one a second one ends the process at
//! once, so a slow shutdown can be cut short.

use nix::sys::signal::{SigSet, Signal};
use std::io;

/// The blocked stop signals of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StopSignals {
    set: SigSet,
}

impl StopSignals {
    /// Blocks them in this thread and all it starts from now on.
    pub(crate) fn block() -> io::Result<Self> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGTERM);
        set.add(Signal::SIGINT);
        set.thread_block()?;
        Ok(Self { set })
    }

    /// Calls `tell` from a thread of its own when the first one arrives.
    pub(crate) fn watch(self, tell: impl FnOnce(Signal) + Send + 'static) -> io::Result<()> {
        let wait = move || match self.set.wait() {
            Ok(signal) => tell(signal),
            Err(error) => tracing::error!(%error, "Stop signals cannot be received"),
        };
        std::thread::Builder::new().name("perigee-signals".to_owned()).spawn(wait).map(drop)
    }

    /// Lets the next one end the process.
    pub(crate) fn unblock(self) {
        if let Err(error) = self.set.thread_unblock() {
            tracing::debug!(%error, "Stop signals stay blocked");
        }
    }
}
