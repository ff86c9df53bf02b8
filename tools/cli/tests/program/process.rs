//! One run of the program under one of its names. Invariant: dropping a run kills it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest time a program may take to become ready or to end, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

fn command(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perigee"));
    command.arg0(name).args(arguments);
    command.env_remove("PERIGEE_LOG").stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn output_of(name: &str, arguments: &[&str]) -> Output {
    command(name, arguments).output().unwrap()
}

/// As [`output_of`], with these variables.
pub(crate) fn output_with(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    command(name, arguments).envs(variables.iter().copied()).output().unwrap()
}

/// A running server; its log lines come in over a channel.
pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
}

impl Server {
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        Self::spawn(command(name, arguments))
    }

    pub(crate) fn start_with(name: &str, arguments: &[&str], variable: (&str, &str)) -> Self {
        let mut command = command(name, arguments);
        command.env(variable.0, variable.1);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Self { child, lines }
    }

    /// The next log line that contains `part`.
    #[track_caller]
    pub(crate) fn line_with(&self, part: &str) -> String {
        self.lines_to(part).pop().expect("the last line has the part")
    }

    /// All log lines up to the next that contains `part`.
    #[track_caller]
    pub(crate) fn lines_to(&self, part: &str) -> Vec<String> {
        let end = Instant::now() + DEADLINE;
        let mut seen = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let is_last = line.contains(part);
                    seen.push(line);
                    if is_last {
                        return seen;
                    }
                }
                Err(error) => panic!("no line with {part:?} ({error}); log:\n{}", seen.join("\n")),
            }
        }
    }

    /// Value of `name=` in the line that says the server is ready.
    #[track_caller]
    pub(crate) fn ready_value(&self, name: &str) -> String {
        let line = self.line_with(": Ready ");
        let found = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("no {name} in {line}")).trim_matches('"').to_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("the program does not end");
    }

    /// Asks it to end and expects success.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.wait().code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
