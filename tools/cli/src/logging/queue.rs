//! Log lines on their way to a thread that writes them. Invariant: handing a line over never waits;
//! when the queue is full the line is dropped and counted.

use crate::limits::{LOG_FLUSH_DEADLINE, LOG_LINE_BYTES_MAX, LOG_QUEUE_LINES_MAX};
use crate::logging::file::LogFile;
use crate::output;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// glog's severities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LogSeverity {
    Information,
    Warning,
    Error,
    /// Above everything we log.
    Fatal,
}

impl LogSeverity {
    /// 0 information, 1 warning, 2 error, 3 and above nothing.
    pub(super) fn of_number(number: i32) -> Self {
        match number {
            ..=0 => Self::Information,
            1 => Self::Warning,
            2 => Self::Error,
            3.. => Self::Fatal,
        }
    }

    fn of_level(level: Level) -> Self {
        match level {
            Level::ERROR => Self::Error,
            Level::WARN => Self::Warning,
            _ => Self::Information,
        }
    }
}

/// Where lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Destinations {
    /// There is a log file.
    pub(super) file: bool,
    /// Every line goes to standard error.
    pub(super) all_to_stderr: bool,
    /// Lines of this severity and above go to standard error in any case.
    pub(super) stderr_from: LogSeverity,
}

enum LogEntry {
    Line {
        text: Vec<u8>,
        stderr: bool,
    },
    /// Answer when everything before is written.
    Flush(Sender<()>),
}

/// The sending side, one per process.
#[derive(Debug, Clone)]
pub(super) struct LogQueue {
    entries: SyncSender<LogEntry>,
    dropped: Arc<AtomicU64>,
    destinations: Destinations,
}

/// Waits for the last lines when it is dropped, for a bounded time.
#[derive(Debug)]
pub(crate) struct LogGuard {
    entries: SyncSender<LogEntry>,
}

impl LogQueue {
    /// Starts the writing thread. Without a thread every line is dropped: the program runs on.
    pub(super) fn start(file: Option<LogFile>, destinations: Destinations) -> (Self, LogGuard) {
        let (entries, waiting) = sync_channel(LOG_QUEUE_LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let thread = std::thread::Builder::new()
            .name("perigee-log".to_owned())
            .spawn(move || write_all(&waiting, file, &counter));
        if let Err(error) = thread {
            output::complain(&format!("Nothing is logged: no thread for it ({error})\n"));
        }
        let guard = LogGuard { entries: entries.clone() };
        let queue = Self { entries, dropped, destinations };
        (queue, guard)
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let (answer, done) = channel();
        if self.entries.try_send(LogEntry::Flush(answer)).is_ok() {
            let _ = done.recv_timeout(LOG_FLUSH_DEADLINE);
        }
    }
}

fn write_all(waiting: &Receiver<LogEntry>, mut file: Option<LogFile>, dropped: &AtomicU64) {
    for entry in waiting {
        match entry {
            LogEntry::Line { text, stderr } => {
                let kept = file.as_mut().is_some_and(|file| file.write(&text));
                if stderr || !kept {
                    let _ = io::stderr().write_all(&text);
                }
                report_dropped(dropped);
            }
            LogEntry::Flush(answer) => {
                let _ = answer.send(());
            }
        }
    }
}

fn report_dropped(dropped: &AtomicU64) {
    let lines = dropped.swap(0, Relaxed);
    if lines > 0 {
        output::complain(&format!("{lines} log lines were dropped: written too slowly\n"));
    }
}

/// Takes the bytes of one line.
#[derive(Debug)]
pub(super) struct LineWriter<'a> {
    queue: &'a LogQueue,
    stderr: bool,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = bytes[..bytes.len().min(LOG_LINE_BYTES_MAX)].to_vec();
        if text.len() < bytes.len() {
            text.push(b'\n');
        }
        let stderr = self.stderr;
        if self.queue.entries.try_send(LogEntry::Line { text, stderr }).is_err() {
            self.queue.dropped.fetch_add(1, Relaxed);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter { queue: self, stderr: self.destinations.all_to_stderr }
    }

    fn make_writer_for(&'a self, line: &Metadata<'_>) -> LineWriter<'a> {
        let to = &self.destinations;
        let loud = LogSeverity::of_level(*line.level()) >= to.stderr_from;
        LineWriter { queue: self, stderr: to.all_to_stderr || (to.file && loud) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const TO_FILE: Destinations =
        Destinations { file: true, all_to_stderr: false, stderr_from: LogSeverity::Fatal };

    fn queue_into(folder: &Path) -> (LogQueue, LogGuard) {
        LogQueue::start(Some(LogFile::new(folder, "p", 1 << 30)), TO_FILE)
    }

    fn log(folder: &Path) -> String {
        std::fs::read_to_string(folder.join("p.log")).unwrap()
    }

    #[test]
    fn every_line_is_written_before_the_guard_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (queue, guard) = queue_into(folder.path());
        for number in 0..100 {
            queue.make_writer().write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        drop(guard);
        assert_eq!(log(folder.path()).lines().count(), 100);
    }

    #[test]
    fn an_endless_line_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let (queue, guard) = queue_into(folder.path());
        queue.make_writer().write_all(&vec![b'x'; 1 << 20]).unwrap();
        drop(guard);
        assert_eq!(log(folder.path()).len(), LOG_LINE_BYTES_MAX + 1);
    }

    #[test]
    fn a_full_queue_drops_lines_and_never_waits() {
        let (entries, waiting) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let queue = LogQueue { entries, dropped: Arc::clone(&dropped), destinations: TO_FILE };
        for _ in 0..3 {
            queue.make_writer().write_all(b"line\n").unwrap();
        }
        assert_eq!(dropped.load(Relaxed), 2);
        drop(waiting);
    }

    #[test]
    fn severities_follow_glog() {
        assert!(LogSeverity::of_level(Level::ERROR) >= LogSeverity::of_number(2));
        assert!(LogSeverity::of_level(Level::ERROR) < LogSeverity::of_number(3));
        assert!(LogSeverity::of_level(Level::INFO) < LogSeverity::of_number(1));
        assert!(LogSeverity::of_level(Level::TRACE) >= LogSeverity::of_number(0));
    }
}
