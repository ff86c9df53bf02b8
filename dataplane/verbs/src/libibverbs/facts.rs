//! What an open device says of itself and its port.
//! Invariant: numbers of the device are never trusted to be positive; a negative one is zero.

use std::path::{Path, PathBuf};

use crate::device_info::{DeviceInfo, DeviceLimits, LinkLayer};
use crate::error::VerbsError;
use crate::limits::{DEVICES_MAX, PIECES_MAX};

use super::abi::{
    IBV_LINK_LAYER_ETHERNET, IBV_LINK_LAYER_INFINIBAND, IBV_PORT_ACTIVE, Zeroed, ibv_context,
    ibv_device_attr, ibv_port_attr,
};
use super::failure::{meaning, returned};
use super::library::Library;

/// Where the kernel shows devices.
const SYSFS: &str = "/sys/class/infiniband";

/// One device there.
pub(super) fn sysfs(device: &str) -> PathBuf {
    Path::new(SYSFS).join(device)
}

/// Names of all that the kernel has, in order.
pub(super) fn kernel_devices() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(SYSFS) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.take(DEVICES_MAX).collect();
    names.sort();
    names
}

pub(super) fn query_device(
    library: &Library,
    name: &str,
    context: *mut ibv_context,
) -> Result<ibv_device_attr, VerbsError> {
    let mut attributes = ibv_device_attr::zeroed();
    // SAFETY: the context is open, and the structure is as large as the library writes.
    let code = unsafe { (library.ibv_query_device)(context, &raw mut attributes) };
    match code {
        0 => Ok(attributes),
        code => Err(meaning(name, "ibv_query_device", returned(code))),
    }
}

pub(super) fn query_port(
    library: &Library,
    name: &str,
    context: *mut ibv_context,
    port: u8,
) -> Result<ibv_port_attr, VerbsError> {
    // Zeros first: the library fills in only what it and the caller both know.
    let mut attributes = ibv_port_attr::zeroed();
    // SAFETY: the context is open; the structure has room beyond what any version writes.
    let code = unsafe { (library.ibv_query_port)(context, port, &raw mut attributes) };
    match code {
        0 => Ok(attributes),
        code => Err(meaning(name, "ibv_query_port", returned(code))),
    }
}

pub(super) fn describe(
    name: &str,
    port: u8,
    device: &ibv_device_attr,
    at: &ibv_port_attr,
) -> DeviceInfo {
    DeviceInfo {
        name: name.to_owned(),
        port,
        ports: device.phys_port_cnt,
        active: at.state == IBV_PORT_ACTIVE,
        link_layer: match at.link_layer {
            IBV_LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
            IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
            _ => LinkLayer::Unknown,
        },
        link_bits_per_second: read_rate(name, port)
            .unwrap_or_else(|| rate_of(at.active_width, at.active_speed)),
        mtu_bytes: mtu_bytes(at.active_mtu),
        lid: at.lid,
        gid_entries: positive(at.gid_tbl_len),
        guid: u64::from_be(device.node_guid),
        limits: DeviceLimits {
            queue_pairs: positive(device.max_qp),
            send_entries: positive(device.max_qp_wr),
            pieces: positive(device.max_sge).min(PIECES_MAX as u32),
            completion_entries: positive(device.max_cqe),
            regions: positive(device.max_mr),
            region_bytes: device.max_mr_size,
            message_bytes: u64::from(at.max_msg_sz),
            inline_bytes: 0,
            reads_outstanding: reads(device),
            partitions: at.pkey_tbl_len,
        },
    }
}

/// A device of which nothing but the name is known yet.
pub(super) fn describe_none(name: &str) -> DeviceInfo {
    describe(name, 0, &ibv_device_attr::zeroed(), &ibv_port_attr::zeroed())
}

/// What both directions allow: this side may ask as well as answer.
fn reads(device: &ibv_device_attr) -> u8 {
    let both = positive(device.max_qp_rd_atom).min(positive(device.max_qp_init_rd_atom));
    u8::try_from(both).unwrap_or(u8::MAX)
}

fn positive(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// `enum ibv_mtu`: 1 is 256, 5 is 4096.
pub(super) fn mtu_bytes(code: i32) -> u32 {
    match code {
        1..=5 => 128 << code,
        _ => 0,
    }
}

/// The largest `enum ibv_mtu` that is not above `bytes`.
pub(super) fn mtu_code(bytes: u32) -> i32 {
    (2..=5).rev().find(|code| mtu_bytes(*code) <= bytes).unwrap_or(1)
}

/// The kernel's own words, `100 Gb/sec (4X EDR)`: right for speeds newer than the library too.
fn read_rate(device: &str, port: u8) -> Option<u64> {
    let file = sysfs(device).join(format!("ports/{port}/rate"));
    parse_rate(&std::fs::read_to_string(file).ok()?)
}

fn parse_rate(text: &str) -> Option<u64> {
    let gigabits: f64 = text.split_whitespace().next()?.parse().ok()?;
    (gigabits > 0.0).then_some((gigabits * 1e9) as u64)
}

/// From `active_width` and `active_speed`, as in the InfiniBand specification.
fn rate_of(width: u8, speed: u8) -> u64 {
    let lanes: u64 = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    let megabits: u64 = match speed {
        1 => 2_500,
        2 => 5_000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        _ => 0,
    };
    lanes * megabits * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_words_and_from_codes() {
        assert_eq!(parse_rate("100 Gb/sec (4X EDR)\n"), Some(100_000_000_000));
        assert_eq!(parse_rate("2.5 Gb/sec (1X SDR)"), Some(2_500_000_000));
        assert_eq!(parse_rate(""), None);
        assert_eq!(rate_of(2, 32), 100_000_000_000);
        assert_eq!(rate_of(2, 200), 0);
    }

    #[test]
    fn mtu_codes_go_both_ways_and_round_down() {
        assert_eq!([256, 1024, 4096].map(mtu_code), [1, 3, 5]);
        assert_eq!([0, 1500, 9000].map(mtu_code), [1, 3, 5]);
        assert_eq!([0, 1, 5, 6].map(mtu_bytes), [0, 256, 4096, 0]);
    }
}
