//! Cores for the shards of rails, near the devices that they drive.
//!
//! On a host of several NUMA nodes a shard next to its devices polls memory that they write next to
//! it. Many engines may run on one host, so a core is claimed by a name that the kernel gives to
//! one holder only and takes back when that dies. The invariant: no core has two shards, and half
//! of each node's cores stay free for other programs.

use crate::limits::{CORES_MIN, SHARDS_NEAR_SHARE};
use crate::rail::RailDevice;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use perigee_topology::{NumaNode, Roots, Topology};
use std::collections::BTreeSet;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// `auto` (or unset) chooses cores near the devices on large hosts, `off` leaves all to the
/// scheduler, and a list such as `2,4,6` names the cores.
const VARIABLE: &str = "PERIGEE_RAIL_CPUS";

/// Cores of shards, kept for as long as this lives.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    numbers: Vec<usize>,
    _claims: Vec<UnixDatagram>,
}

impl Cores {
    /// Cores for so many shards over these devices: those that were named, or those near the
    /// devices that are free.
    pub(crate) fn of(shards: usize, named: &[usize], devices: &[RailDevice]) -> Self {
        if !named.is_empty() {
            return Self::named(named.to_vec());
        }
        match std::env::var(VARIABLE).as_deref() {
            Ok("off") => Self::default(),
            Err(_) | Ok("" | "auto") => Self::near(shards, devices),
            Ok(text) => Self::named(listed(text).unwrap_or_else(|| {
                tracing::warn!(
                    text,
                    "{VARIABLE} is neither auto, off nor a list of cores; it is ignored"
                );
                Vec::new()
            })),
        }
    }

    fn named(numbers: Vec<usize>) -> Self {
        Self { numbers, _claims: Vec::new() }
    }

    fn near(shards: usize, devices: &[RailDevice]) -> Self {
        let wanted: BTreeSet<u32> = devices.iter().filter_map(|device| device.node).collect();
        if wanted.is_empty() {
            return Self::default();
        }
        let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else {
            return Self::default();
        };
        let may = |cpu: u32| allowed.is_set(cpu as usize).unwrap_or(false);
        let nodes = Topology::discover(&Roots::system()).nodes;
        let candidates = candidates(&nodes, &wanted, may);
        take(shards, candidates, claim)
    }

    /// The core of a shard by its number; `None` leaves it to the scheduler.
    pub(crate) fn of_shard(&self, number: usize) -> Option<usize> {
        let count = self.numbers.len();
        (count > 0).then(|| self.numbers[number % count])
    }
}

/// Cores by wanted node that shards may have: none on small hosts and on those of one node.
fn candidates(
    nodes: &[NumaNode],
    wanted: &BTreeSet<u32>,
    may: impl Fn(u32) -> bool,
) -> Vec<Vec<usize>> {
    let usable = |node: &NumaNode| -> Vec<usize> {
        let cpus = node.cpus.iter().filter(|cpu| may(**cpu));
        cpus.map(|cpu| *cpu as usize).collect()
    };
    let usable: Vec<(u32, Vec<usize>)> =
        nodes.iter().map(|node| (node.number, usable(node))).collect();
    let with_cpus = usable.iter().filter(|(_, cpus)| !cpus.is_empty()).count();
    let all: usize = usable.iter().map(|(_, cpus)| cpus.len()).sum();
    if with_cpus < 2 || all < CORES_MIN {
        return Vec::new();
    }
    let near = usable.into_iter().filter(|(node, _)| wanted.contains(node));
    // The first core of a node has more of the kernel's own work than others.
    let near = near.map(|(_, cpus)| {
        let share = cpus.len() / SHARDS_NEAR_SHARE;
        cpus.into_iter().skip(1).take(share).collect()
    });
    near.filter(|cpus: &Vec<usize>| !cpus.is_empty()).collect()
}

/// One core for each shard, from each node in turn. If that many are not free, no shard is pinned.
fn take(
    shards: usize,
    nodes: Vec<Vec<usize>>,
    claim: impl Fn(usize) -> Option<UnixDatagram>,
) -> Cores {
    let (mut numbers, mut claims) = (Vec::new(), Vec::new());
    let mut nodes: Vec<_> = nodes.into_iter().map(Vec::into_iter).collect();
    let mut without = 0;
    while numbers.len() < shards && without < nodes.len() {
        let turn = (numbers.len() + without) % nodes.len();
        let found = nodes[turn].find_map(|cpu| Some((cpu, claim(cpu)?)));
        match found {
            Some((cpu, claimed)) => {
                numbers.push(cpu);
                claims.push(claimed);
                without = 0;
            }
            None => without += 1,
        }
    }
    if numbers.len() < shards {
        return Cores::default();
    }
    Cores { numbers, _claims: claims }
}

/// A name in the kernel's table that only one holder can have.
fn claim(cpu: usize) -> Option<UnixDatagram> {
    let name = SocketAddr::from_abstract_name(format!("perigee-rail-cpu-{cpu}")).ok()?;
    UnixDatagram::bind_addr(&name).ok()
}

/// The numbers of a list such as `2,4,6`, each one that a process can be bound to.
fn listed(text: &str) -> Option<Vec<usize>> {
    let number = |part: &str| part.trim().parse().ok().filter(|cpu| *cpu < CpuSet::count());
    text.split(',').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_topology::fixture;

    fn free(_: usize) -> Option<UnixDatagram> {
        UnixDatagram::unbound().ok()
    }

    fn near(wanted: &[u32], may: impl Fn(u32) -> bool) -> Vec<Vec<usize>> {
        let folder = tempfile::tempdir().unwrap();
        let tree = fixture::two_socket_host(folder.path()).unwrap();
        let nodes = Topology::discover(&tree.roots()).nodes;
        candidates(&nodes, &wanted.iter().copied().collect(), may)
    }

    #[test]
    fn shards_sit_on_the_nodes_of_their_devices_and_leave_half_free() {
        let one = near(&[1], |_| true);
        let [only] = one.as_slice() else { panic!("{one:?}") };
        assert_eq!(only.len(), 16);
        let both = take(3, near(&[0, 1], |_| true), free);
        let chosen: Vec<_> = (0..4).filter_map(|number| both.of_shard(number)).collect();
        assert!(!only.contains(&chosen[0]) && only.contains(&chosen[1]));
        assert_eq!(chosen[3], chosen[0], "a further shard begins from the start");
        assert_ne!(chosen[2], chosen[0]);
    }

    #[test]
    fn small_hosts_and_small_allowances_leave_shards_to_the_scheduler() {
        assert!(near(&[0, 1], |cpu| cpu < 8).is_empty(), "few cores");
        assert!(near(&[7], |_| true).is_empty(), "no such node");
        assert_eq!(take(1, Vec::new(), free).of_shard(0), None);
        let taken = |_| None;
        assert_eq!(take(1, near(&[0], |_| true), taken).of_shard(0), None);
    }

    #[test]
    fn a_core_has_one_holder_and_is_free_again_when_that_is_gone() {
        let number = 4_000_000 + std::process::id() as usize;
        let held = claim(number).unwrap();
        assert!(claim(number).is_none());
        drop(held);
        assert!(claim(number).is_some());
    }

    #[test]
    fn cores_can_be_named() {
        assert_eq!(listed("2, 4,6"), Some(vec![2, 4, 6]));
        for text in ["x", "2,", "-1", "99999999"] {
            assert_eq!(listed(text), None, "{text}");
        }
        let named = Cores::of(1, &[5], &[]);
        assert_eq!((named.of_shard(0), named.of_shard(1)), (Some(5), Some(5)));
    }
}
