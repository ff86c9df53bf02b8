//! One run of the perigee program under one of its names.
//! Invariant: the process is dead when its `Program` is dropped, and a failing test shows its log.
#![expect(unsafe_code, reason = "it changes a child before it starts")]

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::deadline::comes_true;
use crate::limits::{EXIT_DEADLINE, LOG_TAIL_BYTES};

/// Names the program file; without it the build folder of this test is searched.
pub const PROGRAM_VARIABLE: &str = "PERIGEE_BIN";

/// A running or ended program.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    folder: tempfile::TempDir,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code, or nothing after a signal.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Everything it printed, on both channels.
    pub output: String,
}

/// Path of the perigee program under test.
pub fn path() -> PathBuf {
    if let Some(path) = std::env::var_os(PROGRAM_VARIABLE) {
        return PathBuf::from(path);
    }
    let own = std::env::current_exe().expect("a test knows its own path");
    let build = own.ancestors().nth(3).expect("a test lies in BUILD/PROFILE/deps");
    // `make build` names the target, because it links against an older glibc than this host's. The
    // newest counts: an older one would test yesterday's code.
    let portable = format!("{}-unknown-linux-gnu/release", std::env::consts::ARCH);
    let found = [portable.as_str(), "release", "debug"]
        .map(|profile| build.join(profile).join("perigee"))
        .into_iter()
        .filter_map(|candidate| Some((candidate.metadata().ok()?.modified().ok()?, candidate)))
        .max()
        .map(|(_, newest)| newest);
    found.expect("a built perigee program: run `make build`, or set PERIGEE_BIN to one")
}

impl Program {
    /// Starts the program under a name that selects what it does, such as `mooncake_master`.
    pub fn start<S: AsRef<str>>(personality: &str, flags: &[S]) -> Self {
        Self::start_with(personality, flags, &[])
    }

    /// The same with further environment variables.
    pub fn start_with<S: AsRef<str>>(
        personality: &str,
        flags: &[S],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(path());
        command.arg0(personality).args(flags.iter().map(AsRef::as_ref));
        command.envs(variables.iter().copied());
        Self::launch(personality, command, None)
    }

    /// Starts the program with both of its output channels going to `file`.
    pub fn start_into<S: AsRef<str>>(personality: &str, flags: &[S], file: File) -> Self {
        let mut command = Command::new(path());
        command.arg0(personality).args(flags.iter().map(AsRef::as_ref));
        Self::launch(personality, command, Some(file))
    }

    /// Starts another program, such as a client that is to be killed.
    pub fn start_file<S: AsRef<str>>(file: &str, arguments: &[S]) -> Self {
        let mut command = Command::new(file);
        command.args(arguments.iter().map(AsRef::as_ref));
        Self::launch(file, command, None)
    }

    /// The same with further environment variables.
    pub fn start_file_with(file: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(file);
        command.args(arguments).envs(variables.iter().copied());
        Self::launch(file, command, None)
    }

    fn launch(name: &str, mut command: Command, output: Option<File>) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the log can be made");
        let log = output.unwrap_or_else(|| {
            File::create(folder.path().join("log")).expect("a log file can be made")
        });
        let both = log.try_clone().expect("a file descriptor can be copied");
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(log).stderr(both);
        die_with_test(&mut command);
        let child = command.spawn().expect("the program can be started");
        Self { name: name.to_owned(), child, folder }
    }

    /// Runs a program that is expected to end by itself.
    #[track_caller]
    pub fn run<S: AsRef<str>>(personality: &str, flags: &[S]) -> Ended {
        let mut program = Self::start(personality, flags);
        let status = program.wait(EXIT_DEADLINE);
        let status = status.expect("the program ends by itself within the deadline");
        Ended { code: status.code(), signal: status.signal(), output: program.log() }
    }

    /// Process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Folder the program runs in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Everything it has printed so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end; nothing if the limit passes.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let mut status = None;
        comes_true(limit, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        });
        status
    }

    /// Sends a signal. A program that is to stop has stopped then.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("a child can be signalled");
        if signal == Signal::SIGSTOP {
            waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).expect("a child stops");
        }
    }

    /// Ends it without warning and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end and expects exit code 0.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        let status = self.wait(EXIT_DEADLINE);
        let code = status.map(|status| status.code());
        assert_eq!(code, Some(Some(0)), "{} after SIGTERM; log:\n{}", self.name, self.log());
    }

    /// A number of `/proc/PID/status`, such as `VmRSS`, in bytes.
    pub fn status_bytes(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.map_or(0, |count| count << 10)
    }

    /// Open file descriptors.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let start = log.floor_char_boundary(log.len().saturating_sub(LOG_TAIL_BYTES));
            eprintln!("--- log of {} ---\n{}", self.name, &log[start..]);
        }
    }
}

/// Even a killed test leaves no process behind.
fn die_with_test(command: &mut Command) {
    let prepare = || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and makes one system call, without
    // allocation or locks.
    unsafe { command.pre_exec(prepare) };
}
