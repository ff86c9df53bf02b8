//! What a bundle holds of a host: each piece with its name. Invariant: nothing here changes the
//! host, and no piece names a process's arguments or environment.

use super::program::{end_of, printed};
use crate::limits::{BUNDLE_FILE_BYTES_MAX, BUNDLE_LOG_BYTES_MAX, BUNDLE_NICS_MAX};
use perigee_topology::{Roots, Topology};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// A name, and the text or why there is none.
pub(super) type Piece = (String, Result<String, String>);

/// Files of the kernel below `/proc`.
const KERNEL_FILES: &[&str] = &[
    "version",
    "uptime",
    "loadavg",
    "stat",
    "meminfo",
    "vmstat",
    "pressure/cpu",
    "pressure/io",
    "pressure/memory",
    "interrupts",
    "softirqs",
    "diskstats",
    "net/dev",
    "net/snmp",
    "net/netstat",
    "net/softnet_stat",
    "net/sockstat",
    "sys/net/ipv4/tcp_congestion_control",
    "sys/net/ipv4/tcp_rmem",
    "sys/net/ipv4/tcp_wmem",
    "sys/net/core/rmem_max",
    "sys/net/core/wmem_max",
    "sys/vm/nr_hugepages",
    "sys/vm/swappiness",
];

/// Programs, the name of their piece first.
const PROGRAMS: &[(&str, &str, &[&str])] = &[
    ("sockets.txt", "ss", &["-tinm"]),
    ("interfaces.txt", "ip", &["-s", "-s", "-d", "link"]),
    ("routes.txt", "ip", &["route", "show", "table", "all"]),
    ("rdma.txt", "rdma", &["statistic", "show"]),
];

/// Perigee's units in the journal; a template's instances have names of their own.
const UNITS: &str = "perigee-*";

/// What the kernel tells, and what its usual programs do.
pub(super) fn of_host(roots: &Roots) -> Vec<Piece> {
    let of_kernel = KERNEL_FILES.iter().map(|file| {
        let path = roots.proc().top().join(file);
        (format!("host/proc/{file}"), read(&path, BUNDLE_FILE_BYTES_MAX as u64))
    });
    let of_programs = PROGRAMS
        .iter()
        .map(|(piece, program, arguments)| (format!("host/{piece}"), printed(program, arguments)));
    let topology = Topology::discover(roots);
    let nics = topology.nics.iter().filter(|nic| nic.is_physical());
    let of_nics = nics.take(BUNDLE_NICS_MAX).map(|nic| {
        (format!("host/ethtool/{}.txt", nic.name), printed("ethtool", &["-S", &nic.name]))
    });
    of_kernel.chain(of_programs).chain(of_nics).collect()
}

/// The journal of Perigee's units, the kernel's own messages, and the ends of these files.
pub(super) fn of_logs(files: &[&str]) -> Vec<Piece> {
    let mut pieces = vec![
        (
            "logs/journal.txt".to_owned(),
            printed("journalctl", &["-u", UNITS, "-n", "20000", "--no-pager", "-o", "short-iso"]),
        ),
        ("logs/kernel.txt".to_owned(), printed("dmesg", &["--time-format", "iso"])),
    ];
    pieces.extend(files.iter().enumerate().map(|(number, file)| {
        let path = Path::new(file);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (format!("logs/{number}-{name}"), read(path, BUNDLE_LOG_BYTES_MAX))
    }));
    pieces
}

/// The end of a file. What is no plain file is not read: it may never end.
fn read(path: &Path, bytes_max: u64) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(format!("{} is no file", path.display()));
    }
    let mut file = File::open(path).map_err(failed)?;
    // A file of the kernel has no length, and does not like to be sought in.
    let length = file.metadata().map_err(failed)?.len();
    if length > bytes_max {
        file.seek(SeekFrom::Start(length - bytes_max - 1)).map_err(failed)?;
    }
    end_of(file.take(4 * bytes_max), bytes_max).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_programs_and_files_still_gives_every_piece_a_reason() {
        let empty = tempfile::tempdir().unwrap();
        let pieces = of_host(&Roots::new(empty.path(), empty.path()));
        let kernel = pieces.iter().filter(|(name, _)| name.starts_with("host/proc/"));
        for (name, text) in kernel {
            assert!(text.as_ref().is_err_and(|reason| reason.contains("No such file")), "{name}");
        }
    }

    #[test]
    fn the_end_of_a_log_is_taken_and_a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("node.log");
        std::fs::write(&log, format!("{}\nthe last\n", "x".repeat(1000))).unwrap();
        assert_eq!(read(&log, 100).unwrap(), "the last\n");
        assert_eq!(read(&log, 5000).unwrap().len(), 1010);
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&pipe, 100).unwrap_err().ends_with("is no file"));
        let pieces = of_logs(&[log.to_str().unwrap(), "/no/such.log"]);
        assert_eq!(pieces[2].0, "logs/0-node.log");
        assert!(pieces[3].1.as_ref().unwrap_err().contains("/no/such.log"));
    }
}
