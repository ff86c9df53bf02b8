//! fio on the files of the disk, as the baseline of a row. Invariant: it reads the files of the
//! log and never writes to them; what it writes is a file beside them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::baseline::rounds::Baseline;
use crate::error::BenchError;
use crate::load::drive::Measured;

pub(super) const FIO: &str = "fio";

/// Whether there is a fio.
pub(super) fn is_here() -> bool {
    let asked = Command::new(FIO).arg("--version").stdout(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// One pattern of fio.
pub(super) struct Fio {
    /// Where the files of the log lie.
    folder: PathBuf,
    /// Bytes of the file that is written, if it does not read.
    written_bytes: Option<u64>,
    bytes: u64,
    depth: u64,
}

impl Fio {
    /// Reads the files of a log.
    pub(super) fn reads(folder: PathBuf, bytes: u64, depth: u64) -> Self {
        Self { folder, written_bytes: None, bytes, depth }
    }

    /// Writes a file of so many bytes beside a log.
    pub(super) fn writes(folder: PathBuf, bytes: u64, depth: u64, written_bytes: u64) -> Self {
        Self { folder, written_bytes: Some(written_bytes), bytes, depth }
    }

    /// The files that it works on, as fio wants them.
    fn files(&self) -> Result<String, BenchError> {
        let folder = &self.folder;
        let files: Vec<PathBuf> = if self.written_bytes.is_none() {
            let entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
            let paths = entries.into_iter().map(|entry| entry.path());
            paths.filter(|path| path.extension().is_some_and(|it| it == "seg")).collect()
        } else {
            vec![folder.with_file_name("fio")]
        };
        let text = |path: &PathBuf| path.to_string_lossy().replace(':', "\\:");
        Ok(files.iter().map(text).collect::<Vec<_>>().join(":"))
    }

    fn command(&self, time: Duration) -> Result<Command, BenchError> {
        let mut command = Command::new(FIO);
        command.args(["--name=perigee", "--ioengine=io_uring", "--direct=1", "--fixedbufs=1"]);
        command.args(["--registerfiles=1", "--time_based", "--output-format=json"]);
        command.arg(format!("--runtime={}ms", time.as_millis().max(100)));
        command.arg(format!("--bs={}", self.bytes)).arg(format!("--iodepth={}", self.depth));
        command.arg(format!("--filename={}", self.files()?));
        match self.written_bytes {
            None => command.args(["--rw=randread", "--readonly", "--norandommap"]),
            Some(bytes) => command.arg("--rw=write").arg(format!("--size={bytes}")),
        };
        Ok(command)
    }
}

impl Baseline for Fio {
    fn name(&self) -> &'static str {
        FIO
    }

    fn measure(&mut self, time: Duration) -> Result<Measured, BenchError> {
        let output = self.command(time)?.stdin(Stdio::null()).output();
        let output = output.map_err(|error| BenchError::program(FIO, error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().last().unwrap_or("it failed");
            return Err(BenchError::program(
                FIO,
                format!("{said}; pass --fio=false to do without"),
            ));
        }
        let read =
            measured(&output.stdout, if self.written_bytes.is_none() { "read" } else { "write" });
        read.ok_or_else(|| BenchError::program(FIO, "its output has no rate"))
    }
}

/// What the JSON of fio says of one direction.
fn measured(json: &[u8], direction: &str) -> Option<Measured> {
    let all: Value = serde_json::from_slice(json).ok()?;
    let part = all.get("jobs")?.get(0)?.get(direction)?;
    let number = |name: &str| part.get(name)?.as_u64();
    let time = Duration::from_millis(number("runtime")?);
    Some(Measured::of(time, number("total_ios")?, number("io_bytes")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_fio_is_read_from_its_json() {
        let json =
            br#"{"jobs": [{"read": {"io_bytes": 4000000, "runtime": 200, "total_ios": 40}}]}"#;
        let read = measured(json, "read").unwrap();
        assert_eq!((read.operations, read.units), (40, 4_000_000));
        assert!((read.rate() - 2e7).abs() < 1.0);
        assert!(measured(b"fio: not found", "read").is_none());
    }
}
