//! Which rails suit a piece of memory: those that the topology prefers for its location come before
//! the others.
//! Invariant: a rail that the topology does not list for a location is used for memory there only
//! if no listed one works, as when both ends list different ones.

/// What a piece of memory costs over which rail of its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Rails that come after the others, ascending.
    pub(crate) far: Vec<u32>,
    /// Rails that are not meant for it, ascending.
    pub(crate) unlisted: Vec<u32>,
    /// Those that come after others are used only when no other one works.
    pub(crate) is_strict: bool,
}

impl Placement {
    /// What an owner said: rails that come after the others, and rails that are not meant for the
    /// memory.
    pub fn of(far: Vec<u32>, unlisted: Vec<u32>, is_strict: bool) -> Self {
        Self { far, unlisted, is_strict }
    }

    /// Rails that come after the others, ascending.
    pub fn far(&self) -> &[u32] {
        &self.far
    }

    /// Rails that are not meant for the memory, ascending.
    pub fn unlisted(&self) -> &[u32] {
        &self.unlisted
    }

    /// Whether those that come after others wait until no other one works.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Whether another rail is nearer.
    pub(crate) fn is_far(&self, rail: usize) -> bool {
        self.far.binary_search(&(rail as u32)).is_ok() || self.is_unlisted(rail)
    }

    fn is_unlisted(&self, rail: usize) -> bool {
        self.unlisted.binary_search(&(rail as u32)).is_ok()
    }

    /// How long a rail is kept back: 0 not at all, 1 until those before it do not work, 2 until no
    /// listed one does.
    pub(crate) fn reserve(&self, rail: usize) -> u8 {
        if self.is_unlisted(rail) { 2 } else { u8::from(self.is_strict && self.is_far(rail)) }
    }

    /// Whether the list of rails is one that an owner may have made.
    pub(crate) fn is_sound(&self, rails_max: usize) -> bool {
        let mut lists = [&self.far, &self.unlisted].into_iter();
        lists.all(|list| list.len() <= rails_max && list.is_sorted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preference::Preference;
    use crate::rail::{RailDevice, open_rails};
    use perigee_verbs::LinkOptions;
    use perigee_verbs::software::{Clock, DevicePlan, SoftwareNetwork};

    fn placement(preference: &Preference) -> Placement {
        let network = SoftwareNetwork::new(Clock::Manual).unwrap();
        let plans = ["sw0", "sw1", "sw2"].map(DevicePlan::new);
        let fabric = network.host("a", &plans).unwrap();
        let devices =
            ["sw0", "sw1", "sw2"].map(|name| RailDevice { name: name.to_owned(), node: None });
        let rails = open_rails(fabric.as_ref(), &devices, &LinkOptions::default()).unwrap();
        preference.placement(rails.iter().map(AsRef::as_ref))
    }

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn preferred_rails_are_near_others_are_far_and_those_not_listed_are_kept_for_need() {
        let listed = placement(&Preference {
            preferred: list(&["sw1"]),
            others: list(&["sw2"]),
            is_strict: false,
        });
        assert_eq!([0, 1, 2].map(|rail| listed.is_far(rail)), [true, false, true]);
        assert_eq!([0, 1, 2].map(|rail| listed.reserve(rail)), [2, 0, 0]);
        let strict = Placement { is_strict: true, ..listed };
        assert_eq!([0, 1, 2].map(|rail| strict.reserve(rail)), [2, 0, 1]);
    }

    #[test]
    fn without_preference_all_are_alike() {
        assert_eq!(placement(&Preference::default()), Placement::default());
        let placement =
            placement(&Preference { others: list(&["sw0", "sw1"]), ..Preference::default() });
        assert!(!placement.is_far(0), "there is none before it");
        assert_eq!(placement.reserve(2), 2);
    }
}
