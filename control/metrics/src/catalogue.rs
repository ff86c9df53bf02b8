//! Every metric family of every program. Invariant: names are unique; order is the order served.

mod agent;
pub mod buckets;
mod calls;
mod client;
mod disk;
mod features;
mod own;
mod storage;
mod tenants;

use crate::family::Family;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Groups of families in the order served.
const GROUPS: &[&[Family]] = &[
    storage::CAPACITY,
    calls::SINGLE,
    calls::BATCH,
    storage::CACHE,
    storage::EVICTION,
    features::PROMOTION,
    features::HIGH_AVAILABILITY,
    tenants::QUOTAS,
    own::FAMILIES,
    client::MOONCAKE,
    client::OWN,
    disk::FAMILIES,
    agent::FAMILIES,
];

static INDEX: LazyLock<HashMap<&'static str, (usize, &'static Family)>> = LazyLock::new(|| {
    families().enumerate().map(|(i, family)| (family.name, (i, family))).collect()
});

/// All families.
pub fn families() -> impl Iterator<Item = &'static Family> {
    GROUPS.iter().flat_map(|group| group.iter())
}

/// Position and entry of a name.
#[must_use]
pub fn find(name: &str) -> Option<(usize, &'static Family)> {
    INDEX.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{MetricKind, MetricSource, Stability};

    /// Names and types of the families a Mooncake master serves, one per line.
    const MOONCAKE: &str = include_str!("catalogue/mooncake_families.txt");

    #[test]
    fn names_are_unique_and_valid() {
        assert_eq!(INDEX.len(), families().count());
        for family in families() {
            let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(family.name.chars().all(valid), "{}", family.name);
            assert!(family.labels.iter().all(|label| label.chars().all(valid)));
            assert!(!family.help.is_empty() && !family.help.contains('\n'), "{}", family.name);
            assert!(!family.unit.is_empty(), "{}", family.name);
        }
    }

    #[test]
    fn all_families_of_a_mooncake_master_are_served_with_their_types() {
        assert_eq!(MOONCAKE.lines().count(), 151);
        for line in MOONCAKE.lines() {
            let (name, word) = line.split_once(' ').unwrap();
            let (_, family) = find(name).unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!((family.kind.word(), family.source), (word, MetricSource::Master), "{name}");
            assert_ne!(family.stability, Stability::Stable, "{name}");
        }
    }

    #[test]
    fn nothing_is_called_mooncakes_that_is_not() {
        let theirs: Vec<&str> =
            MOONCAKE.lines().filter_map(|line| line.split(' ').next()).collect();
        let master = families().filter(|family| family.source == MetricSource::Master);
        for family in master.filter(|family| family.stability != Stability::Stable) {
            assert!(theirs.contains(&family.name), "{}", family.name);
        }
    }

    #[test]
    fn own_counters_end_in_total_and_own_durations_are_seconds() {
        for family in families().filter(|family| family.stability == Stability::Stable) {
            assert!(family.name.starts_with("perigee_"), "{}", family.name);
            let total = family.name.ends_with("_total");
            assert_eq!(total, family.kind == MetricKind::Counter, "{}", family.name);
            assert!(!family.name.ends_with("_ms") && !family.name.ends_with("_us"));
        }
    }

    #[test]
    fn bucket_bounds_ascend() {
        for family in families() {
            if let MetricKind::Histogram(buckets) = family.kind {
                assert!(buckets.bounds.is_sorted_by(|a, b| a < b), "{}", family.name);
            }
        }
    }
}
