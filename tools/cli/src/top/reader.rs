//! Reads the source on a thread of its own. Invariant: keys never wait for an agent, and no more
//! than one reading is under way.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The thread that reads. It ends with the program: a reading under way is not waited for.
pub(super) struct Reader<T> {
    questions: SyncSender<()>,
    readings: Receiver<Result<T, String>>,
}

impl<T: Send + 'static> Reader<T> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(
        mut read: impl FnMut() -> Result<T, String> + Send + 'static,
    ) -> io::Result<Self> {
        let (questions, asked) = sync_channel(1);
        let (answer, readings) = sync_channel(1);
        let thread = std::thread::Builder::new().name("top-read".to_owned());
        thread.spawn(move || {
            while asked.recv().is_ok() {
                if answer.send(read()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { questions, readings })
    }

    /// Wants a new reading; one that is under way counts.
    pub(super) fn ask(&self) {
        let _ = self.questions.try_send(());
    }

    /// A reading that has come, or why there is none.
    pub(super) fn reading(&self) -> Option<Result<T, String>> {
        self.readings.try_recv().ok()
    }
}
