//! Which GID of a port to use. Invariant: the order depends on type, scope and index only, so two
//! runs on one host choose the same.

use std::cmp::Reverse;

use super::address::{Gid, GidScope};
use super::entry::{GidEntry, GidType};

/// An entry with its place in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedGid {
    /// GID with its index, type and interface.
    pub entry: GidEntry,
    /// Why it stands where it stands, for people.
    pub reason: String,
}

/// All usable entries, best first: by type, then scope, then whether an interface is known, then
/// index. Entries without an address are left out.
#[must_use]
pub fn rank(entries: &[GidEntry]) -> Vec<RankedGid> {
    let mut usable: Vec<&GidEntry> =
        entries.iter().filter(|entry| entry.gid.scope() != GidScope::Null).collect();
    usable.sort_by_key(|entry| {
        let has_netdev = entry.netdev.is_some();
        let scope = entry.gid.scope();
        (entry.kind, scope, Reverse(has_netdev), entry.index)
    });
    let ranked = |entry: &GidEntry| RankedGid {
        entry: entry.clone(),
        reason: reason(entry.kind, entry.gid.scope()),
    };
    usable.into_iter().map(ranked).collect()
}

/// The entry to use: the one at `index` if given and in use, otherwise the best.
#[must_use]
pub fn choose(entries: &[GidEntry], index: Option<u32>) -> Option<RankedGid> {
    let ranked = rank(entries);
    let wished = index.and_then(|index| ranked.iter().find(|one| one.entry.index == index));
    match wished {
        Some(one) => Some(RankedGid {
            entry: one.entry.clone(),
            reason: format!("chosen by its index; {}", one.reason),
        }),
        None => ranked.into_iter().next(),
    }
}

/// True when packets between the two can be expected to arrive: same type and address family, and
/// both on their link or both beyond it. Only a write that arrives proves it.
#[must_use]
pub fn can_pair(local: &GidEntry, remote_kind: GidType, remote: &Gid) -> bool {
    let (one, other) = (local.gid.scope(), remote.scope());
    if one == GidScope::Null || other == GidScope::Null || local.kind != remote_kind {
        return false;
    }
    // An InfiniBand fabric routes by its own identifiers, not by the address.
    local.kind == GidType::InfiniBand
        || (one.is_ipv4() == other.is_ipv4() && one.is_link_local() == other.is_link_local())
}

fn reason(kind: GidType, scope: GidScope) -> String {
    let reach = match (kind, scope.is_link_local()) {
        (GidType::InfiniBand, _) => "reaches the InfiniBand subnet",
        (GidType::RoceV1, _) => "stays in one broadcast domain; used only if there is no RoCE v2",
        (GidType::RoceV2, true) => "stays on one link; give the interface an address",
        (GidType::RoceV2, false) => "crosses routers",
    };
    format!("{kind} with {scope}: {reach}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(index: u32, kind: GidType, gid: &str) -> GidEntry {
        GidEntry {
            port: 1,
            index,
            gid: gid.parse().unwrap(),
            kind,
            netdev: Some("eth0".to_owned()),
        }
    }

    fn order(entries: &[GidEntry]) -> Vec<u32> {
        rank(entries).iter().map(|one| one.entry.index).collect()
    }

    #[test]
    fn a_usual_roce_table_gives_the_ipv4_mapped_v2_entry() {
        let table = [
            entry(0, GidType::RoceV1, "fe80::1"),
            entry(1, GidType::RoceV2, "fe80::1"),
            entry(2, GidType::RoceV1, "::ffff:10.0.0.1"),
            entry(3, GidType::RoceV2, "::ffff:10.0.0.1"),
        ];
        assert_eq!(order(&table), [3, 1, 2, 0]);
        assert_eq!(choose(&table, None).unwrap().entry.index, 3);
        assert_eq!(choose(&table, Some(1)).unwrap().entry.index, 1);
        assert_eq!(choose(&table, Some(9)).unwrap().entry.index, 3);
    }

    #[test]
    fn a_host_with_only_ipv6_is_accepted() {
        let table = [
            entry(0, GidType::RoceV2, "fe80::1"),
            entry(1, GidType::RoceV2, "2001:db8::1"),
            entry(2, GidType::RoceV2, "fd00::1"),
            entry(3, GidType::RoceV2, "::ffff:169.254.0.1"),
        ];
        assert_eq!(order(&table), [1, 2, 3, 0]);
    }

    #[test]
    fn entries_without_an_address_are_never_chosen() {
        assert_eq!(choose(&[entry(0, GidType::RoceV2, "::")], Some(0)), None);
        assert_eq!(choose(&[], None), None);
    }

    #[test]
    fn an_entry_with_an_interface_comes_before_one_without() {
        let mut table = [
            entry(0, GidType::RoceV2, "::ffff:10.0.0.1"),
            entry(1, GidType::RoceV2, "::ffff:10.0.0.2"),
        ];
        table[0].netdev = None;
        assert_eq!(order(&table), [1, 0]);
    }

    #[test]
    fn pairs_need_one_type_one_family_and_one_reach() {
        let local = entry(0, GidType::RoceV2, "::ffff:10.0.0.1");
        let pairs = |kind, gid: &str| can_pair(&local, kind, &gid.parse().unwrap());
        assert!(pairs(GidType::RoceV2, "::ffff:10.9.0.1"));
        assert!(!pairs(GidType::RoceV1, "::ffff:10.9.0.1"));
        assert!(!pairs(GidType::RoceV2, "2001:db8::1"));
        assert!(!pairs(GidType::RoceV2, "::ffff:169.254.0.1"));
        assert!(!pairs(GidType::RoceV2, "::"));
        let fabric = entry(0, GidType::InfiniBand, "fe80::1");
        assert!(can_pair(&fabric, GidType::InfiniBand, &"fec0::1".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn the_order_does_not_depend_on_the_order_of_the_table(
            seeds in proptest::collection::vec((any::<[u8; 16]>(), 0..3_u8), 0..12),
        ) {
            let kinds = [GidType::RoceV2, GidType::InfiniBand, GidType::RoceV1];
            let mut table: Vec<GidEntry> = seeds.iter().zip(0_u32..).map(|((bytes, kind), index)| {
                GidEntry {
                    port: 1, index, gid: Gid(*bytes), kind: kinds[usize::from(*kind)], netdev: None,
                }
            }).collect();
            let forward = order(&table);
            table.reverse();
            prop_assert_eq!(&forward, &order(&table));
            let best = rank(&table);
            prop_assert!(best.windows(2).all(|two| two[0].entry.kind <= two[1].entry.kind));
        }
    }
}
