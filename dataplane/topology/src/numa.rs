//! NUMA nodes with their processors and distances. Invariant: a host has at least one node; what
//! the kernel does not say is node 0 with all processors.

use crate::limits::CPU_NUMBER_MAX;
use crate::roots::Folder;

/// Distance of a node to itself, as the firmware tables define it.
const LOCAL_DISTANCE: u32 = 10;
/// Distance assumed between nodes when the firmware says nothing.
const REMOTE_DISTANCE: u32 = 20;

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaNode {
    /// Number of the node in `/sys/devices/system/node`.
    pub number: u32,
    /// Its processors; empty for a node of memory only.
    pub cpus: Vec<u32>,
    /// Distance to each node of the list, by position; 10 is local.
    distances: Vec<u32>,
}

/// All nodes by number.
pub(crate) fn read(sys: &Folder) -> Vec<NumaNode> {
    let names = sys.names("devices/system/node");
    let numbers = names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok());
    let nodes: Vec<NumaNode> = numbers.map(|number| read_node(sys, number)).collect();
    if nodes.is_empty() {
        return vec![NumaNode {
            number: 0,
            cpus: cpu_list(&sys.text("devices/system/cpu/online").unwrap_or_default()),
            distances: vec![LOCAL_DISTANCE],
        }];
    }
    nodes
}

fn read_node(sys: &Folder, number: u32) -> NumaNode {
    let text = |file: &str| sys.text(&format!("devices/system/node/node{number}/{file}"));
    let distances = text("distance").unwrap_or_default();
    NumaNode {
        number,
        cpus: cpu_list(&text("cpulist").unwrap_or_default()),
        distances: distances.split_whitespace().filter_map(|word| word.parse().ok()).collect(),
    }
}

/// Distance between two nodes by number; 10 is local.
pub(crate) fn distance(nodes: &[NumaNode], one: u32, other: u32) -> u32 {
    if one == other {
        return LOCAL_DISTANCE;
    }
    let from = nodes.iter().find(|node| node.number == one);
    let position = nodes.iter().position(|node| node.number == other);
    let given = from.zip(position).and_then(|(node, at)| node.distances.get(at).copied());
    given.unwrap_or(REMOTE_DISTANCE)
}

/// Reads a list such as `0-15,32-47`. Parts that are no numbers are left out.
#[must_use]
pub fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus: Vec<u32> = text.trim().split(',').flat_map(cpu_range).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn cpu_range(part: &str) -> std::ops::Range<u32> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
        (Ok(first), Ok(last)) if last <= CPU_NUMBER_MAX => first..last + 1,
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_expanded_and_garbage_is_left_out() {
        assert_eq!(cpu_list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(cpu_list("3,1-2,2"), [1, 2, 3]);
        assert_eq!(cpu_list(""), [0_u32; 0]);
        assert_eq!(cpu_list("x,4,9-3,0-4294967295,-"), [4]);
    }

    #[test]
    fn distances_fall_back_when_the_table_is_short() {
        let node = |number, distances: &[u32]| NumaNode {
            number,
            cpus: Vec::new(),
            distances: distances.to_vec(),
        };
        let nodes = [node(0, &[10, 32]), node(2, &[])];
        assert_eq!(distance(&nodes, 0, 2), 32);
        assert_eq!(distance(&nodes, 2, 0), 20);
        assert_eq!(distance(&nodes, 7, 7), 10);
        assert_eq!(distance(&nodes, 0, 9), 20);
    }
}
