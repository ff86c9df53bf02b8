//! The order of GIDs, on tables as real hosts have them.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

fn v4(index: u32, kind: GidKind, address: [u8; 4]) -> PortGid {
    PortGid {
        index,
        address: Ipv4Addr::from(address).to_ipv6_mapped().octets(),
        kind,
        interface: Some("eth0".into()),
    }
}

fn v6(index: u32, kind: GidKind, address: &str) -> PortGid {
    PortGid { index, address: address.parse::<Ipv6Addr>().unwrap().octets(), kind, interface: None }
}

/// The usual table of a RoCE port: each address once per version.
fn mellanox() -> Vec<PortGid> {
    vec![
        v6(0, GidKind::RoceV1, "fe80::1"),
        v6(1, GidKind::RoceV2, "fe80::1"),
        v4(2, GidKind::RoceV1, [10, 0, 0, 1]),
        v4(3, GidKind::RoceV2, [10, 0, 0, 1]),
    ]
}

fn indexes(ranked: &[RankedPortGid]) -> Vec<u32> {
    ranked.iter().map(|gid| gid.gid.index).collect()
}

#[test]
fn version_two_comes_before_one_and_ipv4_before_link_local() {
    let ranked = rank("mlx5_0", &mellanox(), None).unwrap();
    assert_eq!(indexes(&ranked), [3, 1, 2, 0]);
    assert!(ranked.iter().all(|gid| gid.usable));
}

#[test]
fn routable_ipv6_comes_between_ipv4_and_link_local() {
    let table = [
        v6(0, GidKind::RoceV2, "fe80::1"),
        v6(1, GidKind::RoceV2, "fd00::1"),
        v6(2, GidKind::RoceV2, "2001:db8::1"),
        v4(3, GidKind::RoceV2, [169, 254, 1, 1]),
        v4(4, GidKind::RoceV2, [192, 168, 0, 1]),
    ];
    let ranked = rank("mlx5_0", &table, None).unwrap();
    assert_eq!(indexes(&ranked), [4, 2, 1, 0, 3]);
}

#[test]
fn a_host_with_ipv6_only_is_served() {
    let table = [v6(0, GidKind::RoceV2, "fe80::1"), v6(1, GidKind::RoceV2, "2001:db8::1")];
    let ranked = rank("mlx5_0", &table, None).unwrap();
    assert_eq!(indexes(&ranked), [1, 0]);
    let only_link_local = rank("mlx5_0", &table[..1], None).unwrap();
    assert!(only_link_local[0].usable);
}

#[test]
fn infiniband_keeps_its_own_order() {
    let table =
        [v6(0, GidKind::InfiniBand, "fe80::2:c903:0:1"), v6(1, GidKind::InfiniBand, "fec0::1")];
    assert!(rank("mlx5_0", &table, None).unwrap()[0].usable);
}

#[test]
fn a_forced_index_leads_and_sets_the_others_aside() {
    let forced = ForcedIndex { index: 1, variable: "MC_GID_INDEX" };
    let ranked = rank("mlx5_0", &mellanox(), Some(forced)).unwrap();
    assert_eq!(ranked[0].gid.index, 1);
    assert!(ranked[0].explain.ends_with("forced by MC_GID_INDEX"));
    assert!(ranked[1..].iter().all(|gid| !gid.usable));
}

#[test]
fn a_forced_index_outside_the_table_lists_what_there_is() {
    let forced = ForcedIndex { index: 9, variable: "NCCL_IB_GID_INDEX" };
    let error = rank("mlx5_0", &mellanox(), Some(forced)).unwrap_err();
    assert_eq!(error.to_string(), "mlx5_0 has no GID 9 (NCCL_IB_GID_INDEX); it has 0, 1, 2, 3");
}

#[test]
fn tables_without_a_usable_address_are_an_error() {
    let table = [v6(0, GidKind::RoceV2, "::1"), v4(1, GidKind::RoceV2, [127, 0, 0, 1])];
    for gids in [&table[..], &[]] {
        assert!(matches!(rank("mlx5_0", gids, None), Err(VerbsError::NoGid { .. })));
    }
}

#[test]
fn variables_force_in_their_order_and_automatic_values_do_not() {
    let read = |mooncake: Option<&str>, nccl: Option<&str>| {
        ForcedIndex::read(|name| {
            let value = if name == "MC_GID_INDEX" { mooncake } else { nccl };
            value.map(str::to_owned)
        })
    };
    assert_eq!(read(None, None), Ok(None));
    assert_eq!(read(Some("auto"), Some("-1")), Ok(None));
    assert_eq!(read(Some("2"), Some("3")).unwrap().unwrap().index, 2);
    let second = read(Some(""), Some(" 3 ")).unwrap().unwrap();
    assert_eq!((second.index, second.variable), (3, "NCCL_IB_GID_INDEX"));
    assert_eq!(read(Some("x"), None), Err(("MC_GID_INDEX", "x".to_owned())));
}

#[test]
fn each_entry_is_explained_with_its_facts() {
    let ranked = rank("mlx5_0", &mellanox(), None).unwrap();
    assert_eq!(
        ranked[0].explain,
        "GID 3 10.0.0.1 (RoCE v2, IPv4 address, on eth0): \
         first choice, routable and the most common"
    );
}

#[test]
fn ipv4_reaches_ipv4_only() {
    let (four, six) =
        (v4(0, GidKind::RoceV2, [10, 0, 0, 1]), v6(1, GidKind::RoceV2, "2001:db8::1"));
    assert!(four.may_reach(&v4(0, GidKind::RoceV2, [10, 0, 0, 2]).address));
    assert!(!four.may_reach(&six.address));
    assert!(!six.may_reach(&four.address));
    let native = v6(0, GidKind::InfiniBand, "fe80::1");
    assert!(native.may_reach(&four.address));
}
