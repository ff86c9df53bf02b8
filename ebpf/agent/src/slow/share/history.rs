//! What one link showed over time. Invariant: turns of a fault never enter what is usual for it.

use crate::snapshot::SuspectCause;
use std::collections::VecDeque;

/// Turns of the two windows that are looked at, and how many of their turns must show it: the short
/// one for what happens all the time, the long one for what is rare.
pub(super) const WINDOWS: [(usize, usize); 2] = [(8, 4), (32, 9)];
const LONGEST_WINDOW: usize = WINDOWS[1].0;
/// Events in a window below which nothing is said.
const EVENTS_MIN: u64 = 5;
/// Segments in a window below which a link is no measure, neither for itself nor for others.
const SEGMENTS_MIN: u64 = 100;
/// This many times what it was, and what the others show.
const MULTIPLE: u64 = 5;
/// Good segments after which what a link usually shows is known.
const USUAL_SEGMENTS_MIN: u64 = 1000;
/// Segments that make up the usual at most; older ones fade.
const USUAL_SEGMENTS_MAX: u64 = 4_000_000;
/// So many events that do not come in a row of good turns end a fault, as they would come by
/// chance once in 400 times only.
const MISSED_EVENTS: u64 = 6;
/// A fault goes on only while a window shows this many times what was usual before it.
const HELD_MULTIPLE: u64 = 2;

/// What the segments met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mishap {
    Lost,
    /// They found a queue in the network, which marked them.
    Queued,
    /// They came with bits that were wrong: a cable, an optic, a port.
    Damaged,
    /// Nothing had room for them at this port: the host did not take them away fast enough, or the
    /// fabric behind it did not.
    Discarded,
}

impl Mishap {
    pub(super) const ALL: [Self; 4] = [Self::Lost, Self::Queued, Self::Damaged, Self::Discarded];

    /// What became of the segments that are counted. Behind one that is lost others come out of
    /// order: a receiver cannot count the holes.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Lost => "were lost or came behind a lost one",
            Self::Queued => "met a queue",
            Self::Damaged => "were damaged on the wire",
            Self::Discarded => "found no buffer at this port",
        }
    }

    pub(super) fn cause(self) -> SuspectCause {
        match self {
            Self::Lost => SuspectCause::Loss,
            Self::Queued => SuspectCause::Queue,
            Self::Damaged => SuspectCause::Damage,
            Self::Discarded => SuspectCause::Discard,
        }
    }
}

/// Events among segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) events: u64,
    pub(super) segments: u64,
}

impl Share {
    pub(super) fn add(&mut self, other: Self) {
        self.events = self.events.saturating_add(other.events);
        self.segments = self.segments.saturating_add(other.segments);
    }

    /// At least [`MULTIPLE`] times a reference.
    pub(super) fn exceeds(self, reference: Self) -> bool {
        self.is_multiple(reference, MULTIPLE)
    }

    /// At least so many times a reference, of which one event more is assumed than was seen, so
    /// that a reference without any still has a share.
    fn is_multiple(self, reference: Self, multiple: u64) -> bool {
        let ours = u128::from(self.events) * u128::from(reference.segments + 1);
        let theirs = u128::from(reference.events + 1) * u128::from(self.segments);
        ours >= theirs * u128::from(multiple)
    }

    pub(super) fn is_measured(self) -> bool {
        self.segments >= SEGMENTS_MIN
    }
}

/// A link that shows too much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) since_ms: u64,
    /// What it shows, in how many turns.
    pub(super) share: Share,
    pub(super) turns: usize,
    /// All that it showed from its first event to its last one: the turns that follow its end,
    /// which dilute what is shown, are no part of it.
    whole: Share,
    /// What came since its last event.
    quiet: Share,
}

impl Fault {
    /// One more turn of it.
    fn add(&mut self, share: Share) {
        self.quiet.add(share);
        if share.events > 0 {
            self.whole.add(std::mem::take(&mut self.quiet));
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct LinkHistory {
    /// The last turns with segments.
    recent: VecDeque<Share>,
    /// What it showed before those.
    usual: Share,
    pub(super) silent_turns: u32,
    pub(super) fault: Option<Fault>,
    /// Turns since the last fault ended.
    healed_turns: Option<usize>,
}

impl LinkHistory {
    pub(super) fn push(&mut self, share: Share, now_ms: u64) {
        self.silent_turns = 0;
        self.healed_turns = self.healed_turns.map(|turns| turns.saturating_add(1));
        self.recent.push_back(share);
        let is_full = self.recent.len() > LONGEST_WINDOW;
        let oldest = if is_full { self.recent.pop_front() } else { None };
        let odd = self.odd();
        let Some(mut fault) = self.fault else {
            match odd {
                Some((turns, share)) => self.fault = Some(self.begun(now_ms, turns, share)),
                None => self.learn(oldest.unwrap_or_default()),
            }
            return;
        };
        fault.add(share);
        if has_missed(fault.quiet, fault.whole) || !self.is_much_lately() {
            self.fault = None;
            self.healed_turns = Some(0);
            self.recent.clear();
            return;
        }
        if let Some((turns, share)) = odd {
            (fault.turns, fault.share) = (turns, share);
        }
        self.fault = Some(fault);
    }

    /// A fault that these turns show.
    fn begun(&self, since_ms: u64, turns: usize, share: Share) -> Fault {
        let (whole, quiet) = Default::default();
        let mut fault = Fault { since_ms, share, turns, whole, quiet };
        let window = self.recent.iter().skip(self.recent.len().saturating_sub(turns));
        for share in window.skip_while(|share| share.events == 0) {
            fault.add(*share);
        }
        // So many events have one stretch less between them.
        fault.whole.events = fault.whole.events.saturating_sub(1);
        fault
    }

    /// Whether a window still shows more than was usual before. A few events that come later, or
    /// segments so few that none can be missed, do not keep a fault alive.
    fn is_much_lately(&self) -> bool {
        WINDOWS.into_iter().any(|(turns, _)| {
            let sum = self.last(turns);
            let is_more = !self.knows_usual() || sum.is_multiple(self.usual, HELD_MULTIPLE);
            sum.events >= EVENTS_MIN && is_more
        })
    }

    /// What its last turns showed together.
    pub(super) fn last(&self, turns: usize) -> Share {
        sum(self.recent.iter().rev().take(turns).copied())
    }

    /// The shortest window that is full of events, more of them than usual, and not over yet; and
    /// what it shows.
    fn odd(&self) -> Option<(usize, Share)> {
        WINDOWS.into_iter().find_map(|(turns, bad_turns)| {
            let window = self.recent.iter().rev().take(turns);
            let bad = window.filter(|share| share.events > 0).count();
            let sum = self.last(turns);
            let is_much = bad >= bad_turns && sum.events >= EVENTS_MIN && sum.is_measured();
            let is_new = !self.knows_usual() || sum.exceeds(self.usual);
            (is_much && is_new && !self.is_over(sum)).then_some((turns, sum))
        })
    }

    /// Whether a fault ended so lately that little is known of what came after.
    pub(super) fn is_recovering(&self) -> bool {
        self.healed_turns.is_some_and(|turns| turns < LONGEST_WINDOW)
    }

    pub(super) fn knows_usual(&self) -> bool {
        self.usual.segments >= USUAL_SEGMENTS_MIN
    }

    /// Whether what followed the last event can no longer be chance for what shows that share.
    fn is_over(&self, shown: Share) -> bool {
        let good = self.recent.iter().rev().take_while(|share| share.events == 0);
        has_missed(sum(good.copied()), shown)
    }

    fn learn(&mut self, share: Share) {
        self.usual.add(share);
        if self.usual.segments > USUAL_SEGMENTS_MAX {
            self.usual.segments /= 2;
            self.usual.events /= 2;
        }
    }
}

/// Whether so many segments without an event can no longer be chance for who showed that share.
fn has_missed(good: Share, shown: Share) -> bool {
    let expected = u128::from(good.segments) * u128::from(shown.events);
    expected >= u128::from(MISSED_EVENTS) * u128::from(shown.segments.max(1))
}

pub(super) fn sum(shares: impl Iterator<Item = Share>) -> Share {
    shares.fold(Share::default(), |mut sum, share| {
        sum.add(share);
        sum
    })
}
