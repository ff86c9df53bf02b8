//! Which rails suit a piece of memory: those that the topology prefers for its location come before the others.
//! Invariant: a rail that the topology does not list for a location is never used for memory there.

use crate::rail::Rail;
use serde::{Deserialize, Serialize};

/// The devices of a memory location, as the topology lists them. Both lists empty: every rail suits alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// Names of the near ones.
    pub preferred: Vec<String>,
    /// Names of those that come after them.
    pub others: Vec<String>,
    /// The others are used only when no preferred one works, not already when those are busy.
    pub is_strict: bool,
}

impl Preference {
    /// Whether memory of the location may be reached over a rail.
    pub(crate) fn allows(&self, rail: &Rail) -> bool {
        let lists = [&self.preferred, &self.others];
        lists.iter().all(|list| list.is_empty()) || lists.iter().any(|list| names(list, rail))
    }

    /// The same by rail.
    pub(crate) fn placement<'a>(&self, rails: impl IntoIterator<Item = &'a Rail>) -> Placement {
        let is_far = |rail: &Rail| !self.preferred.is_empty() && !names(&self.preferred, rail);
        let rails = rails.into_iter().enumerate();
        let far = rails
            .filter(|(_, rail)| is_far(rail))
            .map(|(at, _)| at as u32);
        Placement {
            far: far.collect(),
            is_strict: self.is_strict,
        }
    }
}

/// Whether a list has a rail, with or without the port that its name may say.
fn names(list: &[String], rail: &Rail) -> bool {
    let device = rail.name().split(':').next();
    list.iter()
        .any(|name| name == rail.name() || Some(name.as_str()) == device)
}

/// What a piece of memory costs over which rail of its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Rails that come after the others, ascending.
    #[serde(default)]
    far: Vec<u32>,
    /// They are used only when no other one works.
    #[serde(default)]
    is_strict: bool,
}

impl Placement {
    /// Whether another rail is nearer.
    pub(crate) fn is_far(&self, rail: usize) -> bool {
        self.far.binary_search(&(rail as u32)).is_ok()
    }

    /// Whether a rail is kept for when the nearer ones do not work.
    pub(crate) fn is_reserve(&self, rail: usize) -> bool {
        self.is_strict && self.is_far(rail)
    }

    /// Whether the list of rails is one that an owner may have made.
    pub(crate) fn is_sound(&self, rails_max: usize) -> bool {
        self.far.len() <= rails_max && self.far.is_sorted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rail::{RailDevice, open_rails};
    use perigee_verbs::software::{Clock, DevicePlan, Network};

    fn placement(preference: &Preference) -> (Placement, Vec<bool>) {
        let network = Network::new(Clock::Manual).unwrap();
        let plans = ["sw0", "sw1", "sw2"].map(DevicePlan::new);
        let fabric = network.host("a", &plans).unwrap();
        let devices = ["sw0", "sw1", "sw2"].map(|name| RailDevice {
            name: name.to_owned(),
            node: None,
        });
        let rails = open_rails(fabric.as_ref(), &devices).unwrap();
        let allowed = rails.iter().map(|rail| preference.allows(rail)).collect();
        (
            preference.placement(rails.iter().map(AsRef::as_ref)),
            allowed,
        )
    }

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn preferred_rails_are_near_others_are_far_and_those_not_listed_are_not_used() {
        let (placement, allowed) = placement(&Preference {
            preferred: list(&["sw1"]),
            others: list(&["sw2"]),
            is_strict: true,
        });
        assert_eq!(allowed, [false, true, true]);
        assert!(!placement.is_far(1) && placement.is_far(2) && placement.is_reserve(2));
    }

    #[test]
    fn without_preference_all_are_alike() {
        let (of_nothing, allowed) = placement(&Preference::default());
        assert_eq!((of_nothing, allowed), (Placement::default(), vec![true; 3]));
        let (placement, allowed) = placement(&Preference {
            others: list(&["sw0", "sw1"]),
            ..Preference::default()
        });
        assert!(!placement.is_far(0), "there is none before it");
        assert_eq!(allowed, [true, true, false]);
    }
}
