//! The host without privilege: NICs and our processes.

mod group;
mod hardware;
mod interface;
mod lock;
mod network;
mod process;
mod waits;

pub(crate) use group::Cgroups;
pub(crate) use interface::{interfaces, nics};
pub(crate) use network::{NetworkNamespace, foreign_name};
pub(crate) use process::{FoundProcesses, OurProcess, is_in_first_pid_namespace};
pub(crate) use waits::{Wait, waits};

use perigee_topology::Roots;

/// Name of this host.
pub(crate) fn name() -> String {
    let name = nix::unistd::gethostname();
    name.map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

/// Changes with each boot.
pub(crate) fn boot(roots: &Roots) -> String {
    roots.proc().text("sys/kernel/random/boot_id").unwrap_or_default()
}
