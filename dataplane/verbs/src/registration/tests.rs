//! Splitting, finding and undoing registrations, on the software fabric.

use std::sync::Arc;

use perigee_memory::HostBuffer;

use super::*;
use crate::device::Fabric;
use crate::software::{Clock, DevicePlan, SoftwareNetwork};

const BYTES: u64 = 1 << 20;

fn host(network: &SoftwareNetwork) -> Arc<dyn Fabric> {
    let plans = ["sw0", "sw1"].map(DevicePlan::new);
    network.host("a", &plans).unwrap()
}

fn parts(address: u64, bytes: u64, most: u64, page_bytes: u64) -> Vec<(u64, u64)> {
    split(address, bytes, most, page_bytes).collect()
}

#[test]
fn borders_fall_on_pages_and_parts_cover_the_range() {
    assert_eq!(
        parts(0x1100, 0x3000, 0x1000, 0x1000),
        [(0x1100, 0xf00), (0x2000, 0x1000), (0x3000, 0x1000), (0x4000, 0x100)]
    );
    assert_eq!(parts(0x1100, 0x10, 0x1000, 0x1000), [(0x1100, 0x10)]);
    let huge = 2 << 20;
    for (from, length) in parts(huge + 5, 10 * huge, 3 * huge + 7, huge) {
        assert!(from == huge + 5 || from % huge == 0);
        assert!(length <= 3 * huge);
    }
}

#[test]
fn a_limit_below_a_page_is_one_page_and_the_end_of_memory_is_no_overflow() {
    assert_eq!(parts(0, 0x2000, 1, 0x1000), [(0, 0x1000), (0x1000, 0x1000)]);
    let last = u64::MAX - 0x10;
    assert_eq!(parts(last, 0x10, u64::MAX, 0x1000), [(last, 0x10)]);
}

#[test]
fn a_range_is_found_in_the_regions_that_it_crosses() {
    let network = SoftwareNetwork::new(Clock::Manual).unwrap();
    let device = host(&network).open("sw0").unwrap();
    let buffer = HostBuffer::allocate(BYTES as usize).unwrap();
    let address = buffer.base() as u64;
    let options = RegistrationOptions { region_bytes: BYTES / 4, ..RegistrationOptions::default() };
    // SAFETY: dropped before the buffer.
    let whole = unsafe { register(device.as_ref(), address, BYTES, &options) }.unwrap();
    assert_eq!(whole.regions().len(), 4);
    let quarter = BYTES / 4;
    let found: Vec<_> = whole
        .parts(address + quarter - 10, quarter + 20)
        .unwrap()
        .map(|part| (part.address - address, part.bytes, part.region.address() - address))
        .collect();
    let expected =
        [(quarter - 10, 10, 0), (quarter, quarter, quarter), (2 * quarter, 10, 2 * quarter)];
    assert_eq!(found, expected);
    for (offset, bytes) in [(0, BYTES + 1), (BYTES, 1), (1, u64::MAX)] {
        assert!(whole.parts(address + offset, bytes).is_none(), "{offset} {bytes}");
    }
    assert!(whole.parts(address - 1, 1).is_none());
    whole.revoke().unwrap();
    assert!(whole.regions().iter().all(|region| region.revoked()));
}

#[test]
fn a_failure_half_way_leaves_nothing_registered() {
    let network = SoftwareNetwork::new(Clock::Manual).unwrap();
    let plan = DevicePlan::new("sw0");
    let mut limits = plan.current_limits();
    limits.regions = 3;
    let fabric = network.host("a", &[plan.limits(limits)]).unwrap();
    let device = fabric.open("sw0").unwrap();
    let buffer = HostBuffer::allocate(BYTES as usize).unwrap();
    let address = buffer.base() as u64;
    let register_in = |count: u64| {
        let options =
            RegistrationOptions { region_bytes: BYTES / count, ..RegistrationOptions::default() };
        // SAFETY: dropped before the buffer.
        unsafe { register(device.as_ref(), address, BYTES, &options) }
    };
    assert!(matches!(register_in(4), Err(VerbsError::OutOfMemory { .. })));
    // All three places are free again.
    assert_eq!(register_in(2).unwrap().regions().len(), 2);
}

#[test]
fn ranges_that_are_none_are_refused() {
    let network = SoftwareNetwork::new(Clock::Manual).unwrap();
    let device = host(&network).open("sw0").unwrap();
    for (address, bytes) in [(4096, 0), (0, 4096), (u64::MAX - 5, 10)] {
        let options = RegistrationOptions::default();
        // SAFETY: refused.
        let refused = unsafe { register(device.as_ref(), address, bytes, &options) };
        assert!(matches!(refused, Err(VerbsError::BadRange { .. })), "{address}");
    }
}
