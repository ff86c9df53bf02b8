//! What an operator may set about rails. The defaults suit networks that ask for nothing.

use crate::limits::ATTEMPTS_MAX;
use perigee_verbs::LinkOptions;
use std::collections::BTreeMap;

/// Settings of all rails of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailTuning {
    /// How queue pairs enter the network.
    pub link: LinkOptions,
    /// Length of slices in bytes, as far as ports take it; `None` cuts each request by its size and
    /// the number of queue pairs.
    pub slice_bytes: Option<u64>,
    /// Times that a slice is tried whose own work request fails, at least 1.
    pub slice_tries: u16,
    /// Which rails of a peer are tried first.
    pub partners: Partners,
}

impl Default for RailTuning {
    fn default() -> Self {
        Self {
            link: LinkOptions::default(),
            slice_bytes: None,
            slice_tries: ATTEMPTS_MAX,
            partners: Partners::default(),
        }
    }
}

/// Which of a peer's rails each of ours is joined to first. The others are tried after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Partners {
    /// The one at the same place in the peer's list, so that all rails of both sides are used.
    #[default]
    ByPlace,
    /// The one whose device has the same name.
    SameName,
    /// The devices listed for ours, in this order.
    Listed(BTreeMap<String, Vec<String>>),
}

impl Partners {
    /// When a peer's device is tried for ours, 0 for the first; `place` is its turn by place among
    /// `count`.
    pub(crate) fn turn(&self, own: &str, theirs: &str, place: usize, count: usize) -> usize {
        let wanted = match self {
            Self::ByPlace => return place,
            Self::SameName => (own == theirs).then_some(0),
            Self::Listed(map) => {
                map.get(own).and_then(|names| names.iter().position(|name| name == theirs))
            }
        };
        wanted.unwrap_or(count + place)
    }
}
