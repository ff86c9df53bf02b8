//! Misconfigurations, each of which one check must name.

pub(super) mod hardware;
mod memory;
pub(super) mod network;
mod rdma;
mod service;

use super::sample::Sample;
use crate::doctor::host::HostFacts;

/// One misconfiguration: the check that must name it, what it must name, how it comes about.
pub(super) struct Case {
    pub(super) check: &'static str,
    pub(super) named: &'static str,
    /// A check that is right to complain as well.
    pub(super) also: &'static str,
    /// Breaks the tree.
    pub(super) inject: Option<fn(&Sample)>,
    /// Breaks what does not stand in the tree.
    pub(super) adjust: fn(&mut HostFacts),
}

fn file(check: &'static str, named: &'static str, inject: fn(&Sample)) -> Case {
    double(check, "", named, inject)
}

/// The second check is right to complain as well.
fn double(
    check: &'static str,
    also: &'static str,
    named: &'static str,
    inject: fn(&Sample),
) -> Case {
    let inject = Some(inject);
    Case { check, named, also, inject, adjust: |_| {} }
}

fn value(check: &'static str, named: &'static str, adjust: fn(&mut HostFacts)) -> Case {
    Case { check, named, also: "", inject: None, adjust }
}

/// All of them.
pub(super) fn all() -> Vec<Case> {
    let families =
        [memory::cases(), network::cases(), rdma::cases(), hardware::cases(), service::cases()];
    families.into_iter().flatten().collect()
}
