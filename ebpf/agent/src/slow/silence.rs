//! Peers that do not answer at all. Those that are only slow answer, and are compared with others;
//! of one that stands still no exchange ever ends.
//!
//! Pure, as the rest of the judgement. Invariant: a peer is named only while a wait for it goes on,
//! and a NIC only if nothing at all is answered over it.

use crate::snapshot::{LinkSeries, Suspect, SuspectCause, SuspectKind};
use std::collections::BTreeMap;

/// Turns without an answer after which a peer is named.
const SILENT_TURNS: u64 = 3;

/// One way to a peer in one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkSilence {
    device: String,
    peer: String,
    /// For how many turns an exchange there has been without an answer.
    turns: u64,
    /// Segments that were sent again over it, all in all.
    retransmits: u64,
    /// Exchanges that have ended over it, all in all.
    operations: u64,
}

impl LinkSilence {
    /// What a link shows in a turn.
    pub(crate) fn of(link: &LinkSeries) -> Self {
        Self {
            device: link.device.clone(),
            peer: link.peer.clone(),
            turns: link.silent_turns,
            retransmits: link.retransmits,
            operations: link.operations,
        }
    }

    fn ends(&self) -> LinkEnds {
        (self.device.clone(), self.peer.clone())
    }

    fn is_silent(&self) -> bool {
        self.turns >= SILENT_TURNS
    }
}

/// NIC and peer.
type LinkEnds = (String, String);

/// Remembers how silences began.
#[derive(Debug, Default)]
pub(crate) struct SilenceDetector {
    /// Segments that had been sent again over a link when it fell silent.
    began: BTreeMap<LinkEnds, u64>,
    /// Exchanges that had ended over each link in the turn before.
    ended: BTreeMap<LinkEnds, u64>,
}

impl SilenceDetector {
    /// Takes what links show in a turn, and tells who does not answer.
    pub(crate) fn judge(&mut self, now_ms: u64, links: &[LinkSilence]) -> Vec<Suspect> {
        let began = std::mem::take(&mut self.began);
        for link in links.iter().filter(|link| link.turns > 0) {
            let before = began.get(&link.ends()).copied().unwrap_or(link.retransmits);
            self.began.insert(link.ends(), before);
        }
        let mut suspects: Vec<Suspect> = Vec::new();
        for link in links.iter().filter(|link| link.is_silent()) {
            let suspect = self.suspect(now_ms, link, links);
            if !suspects.iter().any(|known| known.is_of(&suspect)) {
                suspects.push(suspect);
            }
        }
        self.ended = links.iter().map(|link| (link.ends(), link.operations)).collect();
        suspects
    }

    fn has_answered(&self, link: &LinkSilence) -> bool {
        self.ended.get(&link.ends()).is_some_and(|before| link.operations > *before)
    }

    /// Whether what was sent is not acknowledged: a program that stands still has a kernel that
    /// does.
    fn is_sent_again(&self, link: &LinkSilence) -> bool {
        self.began.get(&link.ends()).is_some_and(|before| link.retransmits > *before)
    }

    fn suspect(&self, now_ms: u64, link: &LinkSilence, links: &[LinkSilence]) -> Suspect {
        let on_nic = || links.iter().filter(|other| other.device == link.device);
        let silent = on_nic().filter(|other| other.is_silent()).count();
        let are_cut = on_nic().all(|other| !other.is_silent() || self.is_sent_again(other));
        let is_whole_nic = silent > 1 && are_cut && !on_nic().any(|other| self.has_answered(other));
        let (kind, name) = match is_whole_nic {
            true => (SuspectKind::Nic, &link.device),
            false => (SuspectKind::Peer, &link.peer),
        };
        let (cause, how) = match self.is_sent_again(link) {
            true => (SuspectCause::Wire, ", and what was sent is not acknowledged"),
            false => (SuspectCause::Still, ""),
        };
        let evidence = match is_whole_nic {
            true => format!("none of {silent} peers that were asked over it answers any more"),
            false => format!("no answer for {} s{how}", link.turns),
        };
        let since_ms = now_ms.saturating_sub(link.turns * 1000);
        let (name, now_ns) = (name.clone(), link.turns.saturating_mul(1_000_000_000));
        Suspect { kind, name, cause, evidence, since_ms, now_ns, usual_ns: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link with so many turns of silence, segments sent again, and exchanges.
    fn link(peer: &str, turns: u64, retransmits: u64, operations: u64) -> LinkSilence {
        let (device, peer) = ("eth0".to_owned(), peer.to_owned());
        LinkSilence { device, peer, turns, retransmits, operations }
    }

    fn named(suspects: &[Suspect]) -> Vec<(SuspectKind, &str, SuspectCause, &str)> {
        let mut named = Vec::new();
        for one in suspects {
            named.push((one.kind, one.name.as_str(), one.cause, one.evidence.as_str()));
        }
        named
    }

    #[test]
    fn a_peer_that_does_not_answer_is_named_as_long_as_it_does_not() {
        let mut detector = SilenceDetector::default();
        for turns in 0..SILENT_TURNS {
            let links = [link("a", turns, 3, 9), link("b", 0, 7, turns)];
            assert_eq!(detector.judge(turns * 1000, &links), []);
        }
        let suspects = detector.judge(9000, &[link("a", 3, 3, 9), link("b", 0, 7, 70)]);
        assert_eq!(suspects[0].since_ms, 6000);
        let still = (SuspectKind::Peer, "a", SuspectCause::Still, "no answer for 3 s");
        assert_eq!(named(&suspects), [still]);
        assert_eq!(detector.judge(10_000, &[link("a", 0, 3, 10), link("b", 0, 7, 80)]), []);
    }

    #[test]
    fn what_is_sent_again_and_not_acknowledged_is_the_wire() {
        let mut detector = SilenceDetector::default();
        detector.judge(0, &[link("a", 1, 3, 9)]);
        let suspects = detector.judge(9000, &[link("a", 5, 6, 9)]);
        let how = "no answer for 5 s, and what was sent is not acknowledged";
        assert_eq!(named(&suspects), [(SuspectKind::Peer, "a", SuspectCause::Wire, how)]);
    }

    #[test]
    fn a_nic_over_which_none_of_several_peers_answers_is_named_instead_of_them() {
        let play = |resent: u64, exchanges: u64| {
            let mut detector = SilenceDetector::default();
            detector.judge(0, &[link("a", 1, 0, 5), link("b", 1, 0, 5), link("c", 0, 0, 5)]);
            let c = link("c", 0, 0, 5 + exchanges);
            detector.judge(9000, &[link("a", 4, resent, 5), link("b", 3, resent, 5), c])
        };
        let names = |suspects: &[Suspect]| -> Vec<String> {
            suspects.iter().map(|one| one.name.clone()).collect()
        };
        assert_eq!(names(&play(2, 0)), ["eth0"]);
        assert_eq!(names(&play(2, 1)), ["a", "b"], "another one answers");
        assert_eq!(names(&play(0, 0)), ["a", "b"], "their hosts acknowledge");
    }
}
