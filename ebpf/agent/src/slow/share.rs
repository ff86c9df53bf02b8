//! Who loses: links whose share of segments that were lost, or that met a queue, is a multiple of
//! what it was and of what others lose; and whose fault that is, the NIC's or the peer's.
//!
//! Pure, as the rest of the judgement. The invariant: a NIC is named only if most links behind it
//! lose and those behind another do not, a peer only if it loses behind every NIC that reaches it
//! while its neighbours do not; a single bad turn names none. The only link of a host cannot tell
//! its ends apart: it goes by the peer's name, and the cluster says which end it is.

mod history;
mod verdict;

use crate::snapshot::Suspect;
pub(crate) use history::Mishap;
use history::{LinkHistory, Share};
use std::collections::BTreeMap;
use verdict::{LinkName, NamedNic, Verdict};

/// Turns without segments after which a link is forgotten.
const SILENT_TURNS_MAX: u32 = 30;
/// Segments in a turn at most, beyond what any link carries: with them no sum or product overflows.
const SEGMENTS_MAX: u64 = 1 << 40;
/// Links that are remembered; more are not watched.
const LINKS_MAX: usize = 4096;

/// What one link showed in one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShareSample {
    pub(crate) mishap: Mishap,
    pub(crate) device: String,
    /// Empty for what the NIC itself counts.
    pub(crate) peer: String,
    /// Segments that met it.
    pub(crate) events: u64,
    /// All segments.
    pub(crate) segments: u64,
}

/// Remembers what links showed.
#[derive(Debug, Default)]
pub(crate) struct ShareDetector {
    links: BTreeMap<LinkName, LinkHistory>,
    /// NICs that were named lately.
    nics: BTreeMap<(Mishap, String), NamedNic>,
}

impl ShareDetector {
    /// Takes what links showed in a turn, and tells whose fault it is.
    pub(crate) fn judge(&mut self, now_ms: u64, samples: &[ShareSample]) -> Vec<Suspect> {
        for link in self.links.values_mut() {
            link.silent_turns = link.silent_turns.saturating_add(1);
        }
        for sample in samples.iter().filter(|sample| sample.segments > 0) {
            let name = (sample.mishap, sample.device.clone(), sample.peer.clone());
            if self.links.contains_key(&name) || self.links.len() < LINKS_MAX {
                // More events than segments are no share: sockets were read in between.
                let segments = sample.segments.min(SEGMENTS_MAX);
                let share = Share { events: sample.events.min(segments), segments };
                self.links.entry(name).or_default().push(share, now_ms);
            }
        }
        self.links.retain(|_, link| link.silent_turns < SILENT_TURNS_MAX);
        let mut suspects: Vec<Suspect> = Vec::new();
        for mishap in Mishap::ALL {
            for found in Verdict::of(&self.links, mishap).suspects(&mut self.nics) {
                found.add_to(&mut suspects);
            }
        }
        suspects
    }

    /// Whether a link shows too much now: its times say nothing of its peer.
    pub(crate) fn is_bad(&self, device: &str, peer: &str) -> bool {
        let name = (Mishap::Lost, device.to_owned(), peer.to_owned());
        self.links.get(&name).is_some_and(|link| link.fault.is_some())
    }
}

#[cfg(test)]
mod tests;
