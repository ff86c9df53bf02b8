//! What the checks look at. Invariant: everything is read once, before the first check; checks are
//! pure functions of this value and of files below its roots.

use super::disk::HostDisk;
use super::peers::PeerHost;
use super::segments::ClusterSegments;
use perigee_mesh::LinkBaseline;
use perigee_shard::{ClockDiscipline, UringUnavailable};
use perigee_topology::{Nic, RdmaDevice, Roots, Topology};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// `CAP_DAC_OVERRIDE`: files open whatever their mode says.
const CAPABILITY_ANY_FILE: u32 = 1;

/// One host, and what it is to be used for.
#[derive(Debug)]
pub(super) struct HostFacts {
    pub(super) roots: Roots,
    pub(super) topology: Topology,
    /// Folder of device files.
    pub(super) dev: PathBuf,
    pub(super) process: Process,
    /// Whether this program was built with eBPF probes.
    pub(super) has_probes: bool,
    /// `None` when another host's files are looked at.
    pub(super) clock: Option<ClockDiscipline>,
    /// Whether shards can run on io_uring here; `None` when another host's files are looked at.
    pub(super) io_uring: Option<Result<(), UringUnavailable>>,
    /// Why shards cannot run at all with the variables of this process.
    pub(super) no_reactor: Option<String>,
    /// Folders `mooncake` that Python imports from; empty when another host's files are looked at.
    pub(super) packages: Vec<PathBuf>,
    /// Memory to be donated, in bytes; 0 if not said.
    pub(super) segment_bytes: u64,
    /// Processors of the shards; empty if not said.
    pub(super) cores: Vec<u32>,
    /// Folders to be used for files.
    pub(super) disks: Vec<HostDisk>,
    /// Reports of other hosts.
    pub(super) peers: Vec<PeerHost>,
    /// Segments of a master.
    pub(super) cluster: ClusterSegments,
    /// What `perigee check` found last, or why that cannot be read; `None` when another host's
    /// files are looked at.
    pub(super) links: Option<Result<LinkBaseline, String>>,
}

impl HostFacts {
    /// Text of a kernel setting such as `net/ipv4/tcp_rmem`.
    pub(super) fn sysctl(&self, name: &str) -> Option<String> {
        self.roots.proc().text(&format!("sys/{name}"))
    }

    /// Interfaces that carry data: those of the RDMA devices, otherwise the fastest cards.
    pub(super) fn rails(&self) -> Vec<&Nic> {
        let names: BTreeSet<&str> =
            self.usable_rdma().filter_map(|device| device.netdev.as_deref()).collect();
        let nics = self.topology.nics.iter();
        if !names.is_empty() {
            return nics.filter(|nic| names.contains(nic.name.as_str())).collect();
        }
        let is_up =
            |nic: &&Nic| nic.is_physical() && nic.state != perigee_topology::OperState::Down;
        let up: Vec<&Nic> = nics.filter(is_up).collect();
        let fastest = up.iter().map(|nic| nic.speed_mbps).max().flatten();
        up.into_iter().filter(|nic| nic.speed_mbps == fastest).collect()
    }

    pub(super) fn usable_rdma(&self) -> impl Iterator<Item = &RdmaDevice> {
        self.topology.rdma.iter().filter(|device| device.has_usable_port())
    }
}

/// Limits and rights of this process; children of the same user inherit them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    /// Memory it may lock, in bytes; `u64::MAX` without a limit. `None` if it cannot be read.
    pub(super) locked_bytes: Option<u64>,
    /// Files it may open. `None` if it cannot be read.
    pub(super) open_files: Option<u64>,
    /// Bit set of capabilities. `None` if it cannot be read.
    pub(super) capabilities: Option<u64>,
    user: u32,
    groups: Vec<u32>,
}

impl Process {
    /// Reads `/proc/self`.
    pub(super) fn read(roots: &Roots) -> Self {
        let limits = roots.proc().text("self/limits").unwrap_or_default();
        let status = roots.proc().text("self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let numbers = |text: String| -> Vec<u32> {
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        // Real, effective, saved, file system: the last one opens files.
        let last = |text: String| numbers(text).last().copied();
        let mut groups = numbers(field("Groups:"));
        groups.extend(last(field("Gid:")));
        Self {
            locked_bytes: limit(&limits, "Max locked memory"),
            open_files: limit(&limits, "Max open files"),
            capabilities: u64::from_str_radix(&field("CapEff:"), 16).ok(),
            user: last(field("Uid:")).unwrap_or(u32::MAX),
            groups,
        }
    }

    /// True if a capability of this number is there, or nothing is known.
    pub(super) fn has_capability(&self, number: u32) -> bool {
        self.capabilities.is_none_or(|all| all >> number & 1 == 1)
    }

    /// True if a file with this mode and owner opens for reading and writing.
    pub(super) fn may_open(&self, mode: u32, owner: u32, group: u32) -> bool {
        let both = |shift: u32| mode >> shift & 0o6 == 0o6;
        if self.capabilities.is_some() && self.has_capability(CAPABILITY_ANY_FILE) {
            return true;
        }
        if self.user == owner {
            both(6)
        } else if self.groups.contains(&group) {
            both(3)
        } else {
            both(0)
        }
    }
}

/// The soft limit of a line of `/proc/self/limits`.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_open_by_owner_group_and_mode() {
        let process = Process {
            locked_bytes: None,
            open_files: None,
            capabilities: Some(0),
            user: 1000,
            groups: vec![1000, 44],
        };
        assert!(process.may_open(0o600, 1000, 0));
        assert!(!process.may_open(0o600, 0, 0));
        assert!(process.may_open(0o660, 0, 44));
        assert!(!process.may_open(0o660, 0, 0));
        assert!(process.may_open(0o666, 0, 0));
        assert!(!process.may_open(0o444, 0, 0));
        let root = Process { capabilities: Some(1 << 1), ..process };
        assert!(root.may_open(0o000, 0, 0));
    }

    #[test]
    fn limits_are_read_as_the_kernel_prints_them() {
        let text = "Limit Soft Hard Units\nMax open files            1024    524288    files\n\
                    Max locked memory         unlimited  unlimited  bytes\n";
        assert_eq!(limit(text, "Max open files"), Some(1024));
        assert_eq!(limit(text, "Max locked memory"), Some(u64::MAX));
        assert_eq!(limit(text, "Max nice priority"), None);
    }
}
