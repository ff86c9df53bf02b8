//! Standard output and standard error. Invariant: a closed pipe or a full disk there never ends the
//! program with a panic, as the printing macros would.

use std::io::{self, Write as _};

/// Writes a result to standard output. A reader that has gone away is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes a message to standard error, if it can be written.
pub(crate) fn complain(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
