//! A server program on a CPU of its own, ended with the benchmark.
//! Invariant: it is killed when dropped, and by the kernel if we are killed.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::limits::{POLL, START_DEADLINE};
use crate::machine::{pin_to_cpu, process_cpu_seconds, resident_bytes};

/// A running program that listens on a port of loopback.
#[derive(Debug)]
pub struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    /// Starts `path`; `arguments` gives them for a port. Returns when the port answers.
    pub fn start(
        path: &str,
        cpu: Option<usize>,
        arguments: impl Fn(u16) -> Vec<String>,
    ) -> Result<Self, BenchError> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut command = Command::new(path);
        command
            .args(arguments(port))
            .stdin(Stdio::null())
            // An interrupt from the terminal is for us, who end it when the rows are printed.
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec only system calls without memory of their own are made.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                cpu.map_or(Ok(()), pin_to_cpu)
            })
        };
        let child = command
            .spawn()
            .map_err(|error| BenchError::program(path, error))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut program = Self { child, address };
        program.wait(path)?;
        Ok(program)
    }

    fn wait(&mut self, path: &str) -> Result<(), BenchError> {
        let deadline = Instant::now() + START_DEADLINE;
        while TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(BenchError::program(
                    path,
                    format!("ended at once with {status}"),
                ));
            }
            if Instant::now() > deadline {
                return Err(BenchError::program(
                    path,
                    format!("does not listen after {START_DEADLINE:?}"),
                ));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// CPU seconds it has used.
    pub fn cpu_seconds(&self) -> Result<f64, BenchError> {
        Ok(process_cpu_seconds(self.child.id())?)
    }

    /// Memory it uses.
    pub fn resident_bytes(&self) -> Result<u64, BenchError> {
        Ok(resident_bytes(self.child.id())?)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
