//! Which pairs are measured at the same time. Invariant: each pair has one turn, and a host is in
//! at most one pair of a turn.

/// All pairs of so many hosts, turn by turn.
pub(crate) fn turns(hosts: usize) -> Vec<Vec<(usize, usize)>> {
    // An even number around a table, of which one stays and the others move on by a place.
    let seats = hosts + hosts % 2;
    let mut ring: Vec<usize> = (0..seats).collect();
    let mut turns = Vec::new();
    for _ in 1..seats {
        let pairs = (0..seats / 2).map(|place| (ring[place], ring[seats - 1 - place]));
        // Of an odd number of hosts one has a pause.
        let pairs = pairs.filter(|(one, other)| *one < hosts && *other < hosts);
        turns.push(pairs.map(|(one, other)| (one.min(other), one.max(other))).collect());
        ring[1..].rotate_right(1);
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_pair_has_one_turn_and_a_host_is_in_one_pair_of_a_turn() {
        for hosts in 0..12 {
            let mut seen = BTreeSet::new();
            for turn in turns(hosts) {
                let mut busy = BTreeSet::new();
                for pair in turn {
                    assert!(seen.insert(pair), "{hosts}: {pair:?} twice");
                    assert!(busy.insert(pair.0) && busy.insert(pair.1), "{hosts}: {pair:?}");
                }
            }
            assert_eq!(seen.len(), hosts * hosts.saturating_sub(1) / 2, "{hosts}");
        }
    }
}
