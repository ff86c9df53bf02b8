//! Who was named as slow: now, and before. Invariant: each verdict of the past has a begin, an end
//! and its evidence, also when the agent was killed while it held.

use crate::limits::PAST_SUSPECTS_MAX;
use crate::persisted::StateFolder;
use crate::snapshot::{PastSuspect, Suspect};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;

const FILE: &str = "suspects.json";

/// The verdicts so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Verdicts {
    /// Those that hold.
    named: Vec<Suspect>,
    /// When they were seen last, in milliseconds since 1970.
    seen_ms: u64,
    /// Those that ended, the newest first.
    past: VecDeque<PastSuspect>,
}

impl Verdicts {
    /// Goes on from what was kept. What held when the agent before ended, ended with it: nothing
    /// was watched since.
    pub(super) fn open(keep: &StateFolder) -> Self {
        let mut verdicts: Self = keep.read(FILE);
        let seen_ms = verdicts.seen_ms;
        verdicts.take(seen_ms, &mut []);
        verdicts
    }

    /// Keeps everything for the next agent.
    pub(super) fn save(&self, keep: &StateFolder) -> io::Result<()> {
        keep.write(FILE, self)
    }

    /// The verdicts of a turn; the log names each when it begins and when it ends. One that goes on
    /// with other evidence has begun when it began.
    pub(super) fn take(&mut self, now_ms: u64, suspects: &mut [Suspect]) {
        for suspect in &mut *suspects {
            let mut before = self.named.iter();
            if let Some(before) = before.find(|before| before.is_of(suspect)) {
                suspect.since_ms = suspect.since_ms.min(before.since_ms);
            }
        }
        for suspect in suspects.iter().filter(|suspect| !holds(&self.named, suspect)) {
            let (kind, evidence) = (suspect.kind.label(), &suspect.evidence);
            tracing::warn!(%kind, name = %suspect.name, %evidence, "Slow");
        }
        for suspect in std::mem::replace(&mut self.named, suspects.to_vec()) {
            if !holds(&self.named, &suspect) {
                tracing::info!(kind = %suspect.kind.label(), name = %suspect.name, "No longer slow");
                // Clocks are set back: nothing ends before it begins.
                let until_ms = now_ms.max(suspect.since_ms);
                self.past.push_front(PastSuspect { suspect, until_ms });
            }
        }
        self.past.truncate(PAST_SUSPECTS_MAX);
        self.seen_ms = now_ms;
    }

    /// Verdicts that ended, the newest first.
    pub(super) fn past(&self) -> Vec<PastSuspect> {
        self.past.iter().cloned().collect()
    }
}

/// Whether a verdict is among these, maybe for another reason and with newer numbers.
fn holds(suspects: &[Suspect], suspect: &Suspect) -> bool {
    suspects.iter().any(|other| other.is_of(suspect))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{SuspectCause, SuspectKind};

    fn suspect(name: &str, since_ms: u64, evidence: &str) -> Suspect {
        Suspect {
            kind: SuspectKind::Nic,
            name: name.to_owned(),
            cause: SuspectCause::Wire,
            evidence: evidence.to_owned(),
            since_ms,
            now_ns: 9,
            usual_ns: 3,
        }
    }

    fn shown(verdicts: &Verdicts) -> Vec<(String, u64, u64, String)> {
        let past = verdicts.past().into_iter();
        past.map(|past| {
            let suspect = past.suspect;
            (suspect.name, suspect.since_ms, past.until_ms, suspect.evidence)
        })
        .collect()
    }

    #[test]
    fn a_verdict_that_ends_is_remembered_with_its_last_evidence() {
        let mut verdicts = Verdicts::default();
        verdicts.take(10, &mut [suspect("eth0", 3, "first")]);
        verdicts.take(11, &mut [suspect("eth0", 3, "last"), suspect("eth1", 11, "other")]);
        assert!(shown(&verdicts).is_empty());
        verdicts.take(12, &mut [suspect("eth1", 11, "other")]);
        assert_eq!(shown(&verdicts), [("eth0".to_owned(), 3, 12, "last".to_owned())]);
        verdicts.take(5, &mut []);
        assert_eq!(shown(&verdicts)[0], ("eth1".to_owned(), 11, 11, "other".to_owned()));
    }

    #[test]
    fn a_verdict_that_goes_on_for_another_reason_is_the_same_one() {
        let mut verdicts = Verdicts::default();
        let lossy = Suspect { cause: SuspectCause::Loss, ..suspect("eth0", 3, "lost") };
        verdicts.take(10, &mut [lossy]);
        let mut slow = [suspect("eth0", 9, "round trips")];
        verdicts.take(11, &mut slow);
        assert!(shown(&verdicts).is_empty(), "it has not ended");
        assert_eq!(slow[0].since_ms, 3, "and did not begin again");
        verdicts.take(14, &mut []);
        assert_eq!(shown(&verdicts), [("eth0".to_owned(), 3, 14, "round trips".to_owned())]);
    }

    #[test]
    fn the_past_outlives_the_agent_and_what_held_ends_when_it_was_seen_last() {
        let folder = tempfile::tempdir().unwrap();
        let keep = StateFolder::new(Some(folder.path()), "boot");
        let mut verdicts = Verdicts::open(&keep);
        verdicts.take(10, &mut [suspect("eth0", 3, "why")]);
        verdicts.take(20, &mut [suspect("eth0", 3, "why")]);
        verdicts.save(&keep).unwrap();
        let next = Verdicts::open(&keep);
        assert_eq!(shown(&next), [("eth0".to_owned(), 3, 20, "why".to_owned())]);
    }

    #[test]
    fn the_past_is_bounded() {
        let mut verdicts = Verdicts::default();
        for turn in 0..3 * PAST_SUSPECTS_MAX as u64 {
            verdicts.take(turn, &mut [suspect("eth0", turn, "why")]);
            verdicts.take(turn, &mut []);
        }
        let past = shown(&verdicts);
        assert_eq!(past.len(), PAST_SUSPECTS_MAX);
        assert_eq!(past[0].1, 3 * PAST_SUSPECTS_MAX as u64 - 1, "the newest stay");
    }
}
