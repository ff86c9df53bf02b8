//! What another program of this host prints. Invariant: it is ended after a deadline, and only the
//! end of a long output is kept.

use crate::limits::{BUNDLE_LOG_BYTES_MAX, BUNDLE_PROGRAM_DEADLINE};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// What it prints to standard output.
///
/// # Errors
/// It is not installed, fails, or takes too long; in words.
pub(super) fn printed(name: &str, arguments: &[&str]) -> Result<String, String> {
    within(BUNDLE_PROGRAM_DEADLINE, name, arguments)
}

fn within(deadline: Duration, name: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(name);
    command.args(arguments).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("{name} is not installed"),
        _ => format!("{name}: {error}"),
    })?;
    let Some(output) = child.stdout.take() else {
        return Err(format!("{name} has no output"));
    };
    // Not joined: what the program has started may hold the pipe open for longer.
    let (sender, read) = sync_channel(1);
    let reading = std::thread::Builder::new().name("bundle-read".to_owned());
    let reading = reading.spawn(move || sender.send(end_of(output, BUNDLE_LOG_BYTES_MAX)));
    reading.map_err(|error| error.to_string())?;
    let text = read.recv_timeout(deadline);
    if text.is_err() {
        let _ = child.kill();
    }
    let ended = child.wait().map_err(|error| error.to_string())?;
    let text = text.map_err(|_| format!("{name} took longer than {} s", deadline.as_secs()))?;
    let text = text.map_err(|error| format!("{name}: {error}"))?;
    match ended.success() {
        true => Ok(text),
        false => Err(format!("{name}: {ended}")),
    }
}

/// The last bytes, without the line that was cut.
pub(super) fn end_of(mut source: impl Read, bytes_max: u64) -> io::Result<String> {
    let room = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let (mut kept, mut is_cut) = (VecDeque::new(), false);
    let mut chunk = vec![0; 64 << 10];
    loop {
        let length = match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        kept.extend(&chunk[..length]);
        let more = kept.len().saturating_sub(room);
        is_cut |= more > 0;
        drop(kept.drain(..more));
    }
    let bytes = kept.make_contiguous();
    let begin = match is_cut {
        true => bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1),
        false => 0,
    };
    Ok(String::from_utf8_lossy(&bytes[begin..]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn the_output_of_a_program_is_read_and_what_goes_wrong_is_said() {
        assert_eq!(printed("echo", &["a b"]).unwrap(), "a b\n");
        let lacks = printed("no-such-program-here", &[]).unwrap_err();
        assert_eq!(lacks, "no-such-program-here is not installed");
        assert!(printed("false", &[]).unwrap_err().contains("exit status: 1"));
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let begun = Instant::now();
        let error = within(Duration::from_millis(20), "sleep", &["600"]).unwrap_err();
        assert!(error.contains("took longer"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn of_a_long_output_whole_lines_at_its_end_are_kept() {
        let text = "first line\nsecond\nthird\n";
        assert_eq!(end_of(text.as_bytes(), 100).unwrap(), text);
        assert_eq!(end_of(text.as_bytes(), 10).unwrap(), "third\n");
        let endless = io::repeat(b'x').take(10 << 20);
        assert_eq!(end_of(endless, 1000).unwrap().len(), 1000);
    }
}
