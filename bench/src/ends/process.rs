//! Another process: the other end of a run on one machine, or a server that it is held against.
//! Invariant: it is killed when dropped, and by the kernel if we are killed.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::cpu::{pin_to_cpu, process_cpu_seconds, resident_bytes};
use crate::error::BenchError;
use crate::limits::{POLL, START_DEADLINE};

/// A running process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    name: String,
}

/// Another process of this program, and what it said when it was ready.
#[derive(Debug)]
pub(crate) struct Companion {
    pub(crate) process: Process,
    /// The rest of its line.
    pub(crate) ready: String,
}

/// A server on a port of loopback.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Process {
    fn start(
        path: &str,
        arguments: &[String],
        cpu: Option<usize>,
        (stdout, stderr): (Stdio, Stdio),
    ) -> Result<Self, BenchError> {
        let mut command = Command::new(path);
        command
            .args(arguments)
            .stdin(Stdio::null())
            // An interrupt from the terminal is for us, who end it when the rows are printed.
            .process_group(0)
            .stdout(stdout)
            .stderr(stderr);
        // SAFETY: between fork and exec only system calls without memory of their own are made.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                cpu.map_or(Ok(()), pin_to_cpu)
            })
        };
        let child = command.spawn().map_err(|error| BenchError::program(path, error))?;
        let name = path.to_owned();
        Ok(Self { child, name })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU seconds it has used.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, BenchError> {
        Ok(process_cpu_seconds(self.pid())?)
    }

    /// Memory it uses.
    pub(crate) fn resident_bytes(&self) -> Result<u64, BenchError> {
        Ok(resident_bytes(self.pid())?)
    }

    fn failed(&self, detail: impl std::fmt::Display) -> BenchError {
        BenchError::program(&self.name, detail)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The file of this program.
fn own_path() -> Result<String, BenchError> {
    Ok(std::env::current_exe()?.to_string_lossy().into_owned())
}

impl Companion {
    /// Starts this program with `arguments`; returns when its standard output has had a line that
    /// starts with `word`.
    ///
    /// # Errors
    /// It cannot be started, ends, or says nothing for too long.
    pub(crate) fn start(
        arguments: &[String],
        word: &str,
        cpu: Option<usize>,
    ) -> Result<Self, BenchError> {
        let mut process =
            Process::start(&own_path()?, arguments, cpu, (Stdio::piped(), Stdio::inherit()))?;
        "The other end of the run".clone_into(&mut process.name);
        let Some(stdout) = process.child.stdout.take() else {
            return Err(process.failed("it has no standard output"));
        };
        let (send, lines) = channel();
        std::thread::Builder::new().name("perigee-lines".to_owned()).spawn(move || {
            // Read to the end: a companion must never wait for a reader.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        })?;
        loop {
            match lines.recv_timeout(START_DEADLINE) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(word) {
                        let ready = rest.trim().to_owned();
                        return Ok(Self { process, ready });
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let detail = format!("it is not ready after {START_DEADLINE:?}");
                    return Err(process.failed(detail));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = process.child.wait()?;
                    return Err(process.failed(format!("it ended with {status}")));
                }
            }
        }
    }
}

impl Server {
    /// Starts `path`, or this program if none is named; `arguments` gives them for a port. Returns
    /// when the port answers.
    ///
    /// # Errors
    /// It cannot be started, ends, or does not listen in time.
    pub(crate) fn start(
        path: Option<&str>,
        cpu: Option<usize>,
        arguments: impl Fn(u16) -> Vec<String>,
    ) -> Result<Self, BenchError> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let path = path.map_or_else(own_path, |path| Ok(path.to_owned()))?;
        let process = Process::start(&path, &arguments(port), cpu, (Stdio::null(), Stdio::null()))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Self { process, address };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<(), BenchError> {
        let deadline = Instant::now() + START_DEADLINE;
        while TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_err() {
            if let Some(status) = self.process.child.try_wait()? {
                return Err(self.process.failed(format!("ended at once with {status}")));
            }
            if Instant::now() > deadline {
                let detail = format!("does not listen after {START_DEADLINE:?}");
                return Err(self.process.failed(detail));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}
