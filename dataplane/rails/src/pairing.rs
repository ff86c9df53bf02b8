//! Which local rail speaks to which remote one, from which address to which: candidates in order,
//! to be proven one by one.
//!
//! A lane is one queue pair to a peer. Each lane keeps its local rail; if its first route cannot be
//! proven, the next one is tried. Every rail of both sides is in the first route of some lane.

use crate::descriptor::{GidDescriptor, RailDescriptor};
use crate::limits::PAIRS_PER_PEER_MAX;
use crate::tuning::Partners;
use perigee_verbs::GidKind;
use perigee_verbs::gid::{GidReach, PortGid, scope_of};

/// Routes of one lane that are tried before it begins again with the first.
const ROUTES_MAX: usize = 8;

/// From one address of a local rail to one of a remote rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressPair {
    /// Local rail.
    pub(crate) local: usize,
    /// Remote rail.
    pub(crate) remote: usize,
    /// Index in the local GID table.
    pub(crate) local_gid: u32,
    /// Index in the remote GID table.
    pub(crate) remote_gid: u32,
}

/// A lane between two engines before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LanePlan {
    /// Its routes, the most promising first.
    pub(crate) routes: Vec<AddressPair>,
    /// The lane whose rails it uses too, by its place in the list.
    pub(crate) beside: Option<usize>,
}

/// How many lanes lead to a peer, as far as its rails and ours allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneCount {
    /// So many in all, the same number over each pair of rails.
    PerPeer(usize),
    /// So many over each pair of rails.
    PerRail(usize),
}

/// The lanes between two engines: as many as either side has rails, then further ones beside each
/// of these as long as there are fewer than `wanted`. Lanes without any route are left out.
pub(crate) fn lanes(
    local: &[RailDescriptor],
    remote: &[RailDescriptor],
    wanted: LaneCount,
    partners: &Partners,
) -> Vec<LanePlan> {
    if local.is_empty() || remote.is_empty() {
        return Vec::new();
    }
    let count = local.len().max(remote.len()).min(PAIRS_PER_PEER_MAX);
    let routes = (0..count).map(|lane| routes(local, remote, lane, partners));
    let first = routes.filter(|routes| !routes.is_empty());
    let first: Vec<LanePlan> = first.map(|routes| LanePlan { routes, beside: None }).collect();
    let over_each = match wanted {
        LaneCount::PerPeer(wanted) => wanted.div_ceil(first.len().max(1)),
        LaneCount::PerRail(wanted) => wanted.min(PAIRS_PER_PEER_MAX),
    };
    let total = first.len() * over_each.max(1);
    let further = (first.len()..total.min(PAIRS_PER_PEER_MAX)).map(|lane| {
        let beside = lane % first.len();
        LanePlan { routes: first[beside].routes.clone(), beside: Some(beside) }
    });
    first.iter().cloned().chain(further).collect()
}

fn routes(
    local: &[RailDescriptor],
    remote: &[RailDescriptor],
    lane: usize,
    partners: &Partners,
) -> Vec<AddressPair> {
    let from = lane % local.len();
    let mut ranked = Vec::new();
    for (to, rail) in remote.iter().enumerate() {
        let place = (to + remote.len() - lane % remote.len()) % remote.len();
        let turn = partners.turn(&local[from].device, &rail.device, place, remote.len());
        let pairs = gid_pairs(&local[from], rail);
        ranked.extend(pairs.map(|(distance, mine, theirs)| {
            let route = AddressPair {
                local: from,
                remote: to,
                local_gid: mine.index,
                remote_gid: theirs.index,
            };
            // Its own partner first, from the best address to the best; then other partners.
            (distance + usize::from(turn > 0) * 2, turn, route)
        }));
    }
    ranked.sort_by_key(|(distance, turn, _)| (*distance, *turn));
    ranked.into_iter().take(ROUTES_MAX).map(|(_, _, route)| route).collect()
}

/// Pairs of addresses that can speak to each other at all, with how far down the two lists they
/// stand.
fn gid_pairs<'a>(
    mine: &'a RailDescriptor,
    theirs: &'a RailDescriptor,
) -> impl Iterator<Item = (usize, &'a GidDescriptor, &'a GidDescriptor)> {
    let same_layer = mine.infiniband == theirs.infiniband;
    let pair = move |(rank, gid): (usize, &'a GidDescriptor)| {
        let others = theirs.gids.iter().enumerate();
        others
            .filter(move |(_, other)| same_layer && can_speak(gid, other, mine.infiniband))
            .map(move |(other_rank, other)| (rank + other_rank, gid, other))
    };
    mine.gids.iter().enumerate().flat_map(pair)
}

fn can_speak(mine: &GidDescriptor, theirs: &GidDescriptor, infiniband: bool) -> bool {
    if infiniband {
        return true;
    }
    let as_gid = PortGid {
        index: mine.index,
        address: mine.address,
        kind: GidKind::RoceV2,
        interface: None,
    };
    mine.roce_v1 == theirs.roce_v1
        && scope_of(theirs.address) != GidReach::Unusable
        && as_gid.may_reach(&theirs.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ipv4(last: u8) -> [u8; 16] {
        let mut gid = [0; 16];
        gid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, last]);
        gid
    }

    fn rail(number: u8) -> RailDescriptor {
        let gid = |index, address| GidDescriptor { index, address, roce_v1: false };
        let mut local = [0; 16];
        local[..2].copy_from_slice(&[0xfe, 0x80]);
        local[15] = number + 1;
        RailDescriptor {
            device: format!("rxe{number}"),
            infiniband: false,
            lid: 0,
            gids: vec![gid(1, ipv4(number + 1)), gid(0, local)],
        }
    }

    fn rails(count: u8) -> Vec<RailDescriptor> {
        (0..count).map(rail).collect()
    }

    #[test]
    fn rails_pair_by_index_over_their_best_addresses_first() {
        let lanes = lanes(&rails(2), &rails(2), LaneCount::PerPeer(1), &Partners::ByPlace);
        let first: Vec<_> = lanes.iter().map(|lane| lane.routes[0]).collect();
        for (index, route) in first.iter().enumerate() {
            assert_eq!((route.local, route.remote), (index, index));
            assert_eq!((route.local_gid, route.remote_gid), (1, 1));
        }
        assert_eq!(lanes[0].routes[1].remote_gid, 0, "then the second address of the same rail");
    }

    #[test]
    fn addresses_of_different_families_or_layers_are_never_paired() {
        let mut v1 = rails(1);
        v1[0].gids.iter_mut().for_each(|gid| gid.roce_v1 = true);
        assert!(lanes(&v1, &rails(1), LaneCount::PerPeer(1), &Partners::ByPlace).is_empty());
        let mut infiniband = rails(1);
        infiniband[0].infiniband = true;
        assert!(
            lanes(&infiniband, &rails(1), LaneCount::PerPeer(1), &Partners::ByPlace).is_empty()
        );
        for lane in lanes(&rails(1), &rails(3), LaneCount::PerPeer(4), &Partners::ByPlace) {
            let same = |route: &AddressPair| route.local_gid == route.remote_gid;
            assert!(lane.routes.iter().all(same));
        }
    }

    #[test]
    fn each_pair_of_rails_gets_its_lanes_up_to_the_bound() {
        let count = |wanted| {
            lanes(&rails(2), &rails(2), LaneCount::PerRail(wanted), &Partners::ByPlace).len()
        };
        assert_eq!([0, 1, 3].map(count), [2, 2, 6]);
        assert_eq!(count(usize::MAX), PAIRS_PER_PEER_MAX);
    }

    #[test]
    fn named_partners_are_tried_first_and_the_others_after_them() {
        let theirs: Vec<_> = rails(3).into_iter().rev().collect();
        let first = |partners: &Partners| -> Vec<(usize, usize)> {
            let lanes = lanes(&rails(3), &theirs, LaneCount::PerPeer(1), partners);
            lanes.iter().map(|lane| (lane.routes[0].local, lane.routes[0].remote)).collect()
        };
        assert_eq!(first(&Partners::ByPlace), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(first(&Partners::SameName), [(0, 2), (1, 1), (2, 0)]);
        let listed = [("rxe0", vec!["nic9", "rxe1"]), ("rxe2", vec!["rxe2"])];
        let text = |name: &&str| (*name).to_owned();
        let listed =
            listed.iter().map(|(own, names)| (text(own), names.iter().map(text).collect()));
        let listed = Partners::Listed(listed.collect());
        assert_eq!(first(&listed), [(0, 1), (1, 1), (2, 0)]);
        let lanes = lanes(&rails(3), &theirs, LaneCount::PerPeer(1), &listed);
        let reached = |remote| lanes[0].routes.iter().any(|route| route.remote == remote);
        assert!((0..3).all(reached), "no rail is left out: {lanes:?}");
    }

    proptest! {
        #[test]
        fn every_rail_of_both_sides_is_some_lanes_first_choice(
            mine in 1u8..9, theirs in 1u8..9, wanted in 0usize..9,
        ) {
            let wanted_lanes = LaneCount::PerPeer(wanted);
            let lanes = lanes(&rails(mine), &rails(theirs), wanted_lanes, &Partners::ByPlace);
            for index in 0..usize::from(mine) {
                prop_assert!(lanes.iter().any(|lane| lane.routes[0].local == index));
            }
            for index in 0..usize::from(theirs) {
                prop_assert!(lanes.iter().any(|lane| lane.routes[0].remote == index));
            }
            let pairs = usize::from(mine.max(theirs));
            let most = pairs + pairs.max(wanted);
            prop_assert!((pairs.max(wanted)..most).contains(&lanes.len()));
            prop_assert_eq!(lanes.len() % pairs, 0);
            for (index, lane) in lanes.iter().enumerate() {
                prop_assert_eq!(lane.beside, (index >= pairs).then_some(index % pairs));
                prop_assert_eq!(&lane.routes, &lanes[index % pairs].routes);
            }
            prop_assert!(lanes.iter().all(|lane| lane.routes.len() <= ROUTES_MAX));
        }
    }
}
