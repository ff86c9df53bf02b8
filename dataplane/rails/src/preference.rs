//! Which devices suit a memory location, as the topology lists them.
//! Invariant: a preference names devices; what it means for rails is a placement.

use crate::placement::Placement;
use crate::rail::Rail;

/// The devices of a memory location, as the topology lists them. Both lists empty: every rail suits
/// alike.
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
    /// The same by rail.
    pub(crate) fn placement<'a>(&self, rails: impl IntoIterator<Item = &'a Rail>) -> Placement {
        let (mut far, mut unlisted) = (Vec::new(), Vec::new());
        for (at, rail) in rails.into_iter().enumerate() {
            if !self.lists(rail) {
                unlisted.push(at as u32);
            } else if !self.preferred.is_empty() && !names(&self.preferred, rail) {
                far.push(at as u32);
            }
        }
        Placement { far, unlisted, is_strict: self.is_strict }
    }

    fn lists(&self, rail: &Rail) -> bool {
        let lists = [&self.preferred, &self.others];
        lists.iter().all(|list| list.is_empty()) || lists.iter().any(|list| names(list, rail))
    }
}

/// Whether a list has a rail, with or without the port that its name may say.
pub(crate) fn names(list: &[String], rail: &Rail) -> bool {
    let device = rail.name().split(':').next();
    list.iter().any(|name| name == rail.name() || Some(name.as_str()) == device)
}
