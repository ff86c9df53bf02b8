//! Another process of this program, which is the other end of a run on one machine.
//! Invariant: it is killed when dropped, and by the kernel if we are killed.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};

use crate::error::BenchError;
use crate::limits::START_DEADLINE;

/// A running companion.
#[derive(Debug)]
pub struct Companion {
    child: Child,
    ready: String,
}

impl Companion {
    /// Starts this program with `arguments`; returns when its standard output has had a line that starts
    /// with `word`, and keeps the rest of that line.
    ///
    /// # Errors
    /// It cannot be started, ends, or says nothing for too long.
    pub fn start(arguments: &[String], word: &str) -> Result<Self, BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(arguments)
            .stdin(Stdio::null())
            // An interrupt from the terminal is for us, who end it when the rows are printed.
            .process_group(0)
            .stdout(Stdio::piped());
        // SAFETY: between fork and exec only a system call without memory of its own is made.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let mut companion = Self {
            child: command.spawn()?,
            ready: String::new(),
        };
        companion.ready = companion.wait_for(word)?;
        Ok(companion)
    }

    fn wait_for(&mut self, word: &str) -> Result<String, BenchError> {
        let name = "The other end of the run";
        let Some(stdout) = self.child.stdout.take() else {
            return Err(BenchError::program(name, "it has no standard output"));
        };
        let (send, lines) = channel();
        std::thread::Builder::new()
            .name("perigee-lines".to_owned())
            .spawn(move || {
                // Read to the end: a companion must never wait for a reader.
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let _ = send.send(line);
                }
            })?;
        loop {
            match lines.recv_timeout(START_DEADLINE) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(word) {
                        return Ok(rest.trim().to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let detail = format!("it is not ready after {START_DEADLINE:?}");
                    return Err(BenchError::program(name, detail));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait()?;
                    return Err(BenchError::program(name, format!("it ended with {status}")));
                }
            }
        }
    }

    /// What its line said.
    #[must_use]
    pub fn ready(&self) -> &str {
        &self.ready
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
