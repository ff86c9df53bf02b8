//! The running kernel's own description of its structures: offsets of members and names of
//! enumerators.

use crate::error::ProbeError;
use crate::feature::Feature;
use crate::limits::KERNEL_TYPES_BYTES_MAX;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u32 = 0xeb9f;

/// The offset globals of the probes, the members they stand for, and the features that are off
/// without them.
const OFFSETS: [(&str, &str, &str, &[Feature]); 23] = [
    ("SOCK_RX_INTERFACE", "sock", "sk_rx_dst_ifindex", &[Feature::RoundTrips, Feature::TcpEvents]),
    ("SOCK_NETWORK", "sock_common", "skc_net", &[Feature::RoundTrips, Feature::TcpEvents]),
    ("SOCK_GROUP_DATA", "sock", "sk_cgrp_data", &[Feature::RoundTrips]),
    ("GROUP_DATA_GROUP", "sock_cgroup_data", "cgroup", &[Feature::RoundTrips]),
    ("GROUP_NODE", "cgroup", "kn", &[Feature::RoundTrips]),
    ("NODE_NUMBER", "kernfs_node", "id", &[Feature::RoundTrips]),
    ("DEVICE_NETWORK", "net_device", "nd_net", &[Feature::Drops]),
    ("NETWORK_COMMON", "net", "ns", NETWORKED),
    ("COMMON_NUMBER", "ns_common", "inum", NETWORKED),
    ("SKB_DEVICE", "sk_buff", "dev", &[Feature::Drops]),
    ("DEVICE_INDEX", "net_device", "ifindex", &[Feature::Drops]),
    ("REQUEST_QUEUE", "request", "q", &[Feature::Blocks]),
    ("REQUEST_START_NS", "request", "start_time_ns", &[Feature::Blocks]),
    ("REQUEST_FLAGS", "request", "cmd_flags", &[Feature::Blocks]),
    ("QUEUE_DISK", "request_queue", "disk", &[Feature::Blocks]),
    ("DISK_MAJOR", "gendisk", "major", &[Feature::Blocks]),
    ("DISK_MINOR", "gendisk", "first_minor", &[Feature::Blocks]),
    ("TASK_PID", "task_struct", "pid", &[Feature::Tasks]),
    ("TASK_SCHEDULING", "task_struct", "sched_info", &[Feature::Tasks]),
    ("TASK_ENTITY", "task_struct", "se", &[Feature::Tasks]),
    ("SCHEDULING_DELAY", "sched_info", "run_delay", &[Feature::Tasks]),
    ("SCHEDULING_ARRIVAL", "sched_info", "last_arrival", &[Feature::Tasks]),
    ("ENTITY_RAN", "sched_entity", "sum_exec_runtime", &[Feature::Tasks]),
];

/// Those that tell network namespaces apart.
const NETWORKED: &[Feature] = &[Feature::RoundTrips, Feature::TcpEvents, Feature::Drops];

/// What a kernel lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingMember {
    /// Structure and member.
    pub(crate) member: String,
    /// What does not work without it.
    pub(crate) features: &'static [Feature],
}

/// Kinds of types, as the format numbers them.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;

/// A table of types.
pub(crate) struct KernelTypes {
    bytes: Vec<u8>,
    strings: usize,
    /// Where each type begins; type 1 is the first.
    types: Vec<usize>,
}

impl KernelTypes {
    pub(crate) fn of_running_kernel() -> Result<Self, ProbeError> {
        let file = File::open(PATH).map_err(ProbeError::KernelTypes)?;
        let mut bytes = Vec::new();
        let read = file.take(KERNEL_TYPES_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(ProbeError::KernelTypes)?;
        Self::parse(bytes)
    }

    fn parse(bytes: Vec<u8>) -> Result<Self, ProbeError> {
        let mut table = Self { bytes, strings: 0, types: Vec::new() };
        if table.word(0)? & 0xffff != MAGIC {
            return Err(ProbeError::Malformed("it does not begin as it should"));
        }
        let header = table.word(4)? as usize;
        let begin = header + table.word(8)? as usize;
        let end = begin + table.word(12)? as usize;
        table.strings = header + table.word(16)? as usize;
        let mut at = begin;
        while at < end {
            table.types.push(at);
            at += 12 + trailing_bytes(table.word(at + 4)?)?;
        }
        Ok(table)
    }

    /// Values for the probes' offset globals. What a kernel lacks is left at zero and named.
    pub(crate) fn offsets(&self) -> (Vec<(&'static str, u32)>, Vec<MissingMember>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        let by_name = self.structures(OFFSETS.map(|(_, structure, ..)| structure));
        for (global, structure, member, features) in OFFSETS {
            let kinds = by_name.get(structure).map_or(&[][..], Vec::as_slice);
            match kinds.iter().find_map(|at| self.member(*at, member, 0)) {
                Some(offset) => found.push((global, offset)),
                None => missing
                    .push(MissingMember { member: format!("{structure}.{member}"), features }),
            }
        }
        (found, missing)
    }

    /// Names of an enumeration's values.
    pub(crate) fn enumerators(&self, name: &str) -> HashMap<u32, String> {
        let is_it = |at: &&usize| self.kind(**at) == ENUM && self.name_at(**at) == name.as_bytes();
        let mut names = HashMap::new();
        for at in self.types.iter().filter(is_it) {
            let count = self.word(at + 4).unwrap_or(0) & 0xffff;
            for index in 0..count as usize {
                let entry = at + 12 + 8 * index;
                if let Ok(value) = self.word(entry + 4) {
                    let text = String::from_utf8_lossy(self.name_at(entry));
                    names.insert(value, text.into_owned());
                }
            }
        }
        names
    }

    fn structures<const N: usize>(&self, names: [&'static str; N]) -> HashMap<&str, Vec<usize>> {
        let mut found: HashMap<&str, Vec<usize>> = HashMap::new();
        for at in &self.types {
            if self.kind(*at) == STRUCT {
                let name = self.name_at(*at);
                if let Some(name) = names.iter().find(|wanted| wanted.as_bytes() == name) {
                    found.entry(name).or_default().push(*at);
                }
            }
        }
        found
    }

    /// Byte offset of a member, also inside structures without a name.
    fn member(&self, at: usize, wanted: &str, depth: usize) -> Option<u32> {
        const NESTING_MAX: usize = 8;
        let info = self.word(at + 4).ok()?;
        for index in 0..(info & 0xffff) as usize {
            let entry = at + 12 + 12 * index;
            let position = self.word(entry + 8).ok()?;
            // With bit fields, the upper byte is the field's width.
            let bits = if info >> 31 == 1 { position & 0xff_ffff } else { position };
            let name = self.name_at(entry);
            if name == wanted.as_bytes() {
                return Some(bits / 8);
            }
            if name.is_empty() && depth < NESTING_MAX {
                let id = self.word(entry + 4).ok()? as usize;
                let inner = self.types.get(id.wrapping_sub(1)).copied();
                let inner = inner.filter(|inner| matches!(self.kind(*inner), STRUCT | UNION));
                let nested = inner.and_then(|inner| self.member(inner, wanted, depth + 1));
                if let Some(offset) = nested {
                    return Some(bits / 8 + offset);
                }
            }
        }
        None
    }

    fn kind(&self, at: usize) -> u32 {
        self.word(at + 4).map_or(0, |info| info >> 24 & 0x1f)
    }

    /// The name that the word at `at` points to.
    fn name_at(&self, at: usize) -> &[u8] {
        let offset = self.word(at).unwrap_or(0) as usize;
        let text = self.bytes.get(self.strings + offset..).unwrap_or(&[]);
        let end = text.iter().position(|byte| *byte == 0);
        &text[..end.unwrap_or(0)]
    }

    fn word(&self, at: usize) -> Result<u32, ProbeError> {
        let bytes = self.bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or(ProbeError::Malformed("it ends in the middle of a type"))?;
        Ok(u32::from_ne_bytes(bytes))
    }
}

/// Bytes that follow the fixed part of a type.
fn trailing_bytes(info: u32) -> Result<usize, ProbeError> {
    let count = (info & 0xffff) as usize;
    Ok(match info >> 24 & 0x1f {
        1 | 14 | 17 => 4,
        3 => 12,
        4 | 5 | 15 | 19 => 12 * count,
        6 | 13 => 8 * count,
        2 | 7..=12 | 16 | 18 => 0,
        _ => {
            return Err(ProbeError::Malformed("it has a kind of type that is not known"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct inner { ..; int deep; }` without a name inside `struct outer { int first; <inner>;
    /// }`, and an enumeration.
    fn small() -> Vec<u8> {
        let strings = b"\0outer\0first\0deep\0colour\0RED\0GREEN\0";
        let at = |name: &str| {
            let text = std::str::from_utf8(strings).unwrap();
            text.find(&format!("\0{name}\0")).unwrap() as u32 + 1
        };
        let types: Vec<u32> = [
            vec![0, UNION << 24 | 1, 8, at("deep"), 3, 32],
            vec![at("outer"), STRUCT << 24 | 2, 16, at("first"), 3, 0, 0, 1, 64],
            vec![at("colour"), ENUM << 24 | 2, 4, at("RED"), 5, at("GREEN"), 7],
        ]
        .concat();
        let length = (types.len() * 4) as u32;
        let header = [MAGIC | 1 << 16, 24, 0, length, length, strings.len() as u32];
        let words = header.iter().chain(&types).flat_map(|word| word.to_ne_bytes());
        words.chain(strings.iter().copied()).collect()
    }

    #[test]
    fn members_are_found_also_in_nameless_parts() {
        let types = KernelTypes::parse(small()).unwrap();
        let outer = types.structures(["outer"])["outer"][0];
        assert_eq!(types.member(outer, "first", 0), Some(0));
        assert_eq!(types.member(outer, "deep", 0), Some(8 + 4));
        assert_eq!(types.member(outer, "absent", 0), None);
    }

    #[test]
    fn enumerators_have_their_names() {
        let names = KernelTypes::parse(small()).unwrap().enumerators("colour");
        assert_eq!((names[&5].as_str(), names[&7].as_str()), ("RED", "GREEN"));
    }

    #[test]
    fn damaged_tables_are_refused_without_a_panic() {
        let whole = small();
        assert!(KernelTypes::parse(vec![1, 2, 3]).is_err());
        for length in 0..whole.len() {
            if let Ok(types) = KernelTypes::parse(whole[..length].to_vec()) {
                let _ = (types.offsets(), types.enumerators("colour"));
            }
        }
    }

    #[test]
    fn what_a_kernel_lacks_is_named_with_what_it_turns_off() {
        let (found, missing) = KernelTypes::parse(small()).unwrap().offsets();
        assert!(found.is_empty());
        let arrival = missing.iter().find(|missing| missing.member == "sched_info.last_arrival");
        assert_eq!(arrival.unwrap().features, [Feature::Tasks]);
    }

    #[test]
    fn this_kernel_has_every_member_the_probes_read() {
        if !std::path::Path::new(PATH).exists() {
            eprintln!("SKIP: {PATH} is not there");
            return;
        }
        let (found, missing) = KernelTypes::of_running_kernel().unwrap().offsets();
        assert_eq!(missing, []);
        assert_eq!(found.len(), OFFSETS.len());
    }
}
