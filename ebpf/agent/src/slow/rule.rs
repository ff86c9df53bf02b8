//! When a time is too long: one rule per kind. Invariant: a difference must be both a multiple and
//! a length that matters.

use super::sample::{PeerBaseline, STARVED_NS, Sample};
use super::series::Grade;
use crate::snapshot::SuspectKind;

/// Signs of RDMA ports come from operations of any size, so only the ports of one host at one time
/// compare.
pub(crate) const RDMA_GROUP: &str = "rdma";

/// How groups begin whose signs are the shortest time of each turn, which is steady enough for
/// small multiples.
pub(crate) const SHORTEST_GROUP: &str = "shortest/";

/// How groups begin whose signs are what a wire takes for a block of bytes. Loads differ, so what
/// is usual has to be known, and only much more than that matters: 64 KiB in a millisecond are half
/// a gigabit.
pub(crate) const WIRE_GROUP: &str = "wire/";

/// What exchanges take at their peers.
pub(crate) const OWN_GROUP: &str = "";

/// What exchanges take at the only peer, of which the kind and size of the work are no part.
pub(crate) const STILL_GROUP: &str = "still/";

/// A NIC that the others hide, because they take longer by nature, is held against its own past:
/// this many times that, in tenths, as if it were alone.
const HIDDEN_TENTHS: u64 = 40;
/// The others take longer by nature if they usually take so many times as long, in tenths.
const BY_NATURE_TENTHS: u64 = 20;

/// From this multiple on a subject is clearly slow, in tenths.
const CLEAR_TENTHS: u64 = 30;

/// A round trip is too long from so many times what was measured on the idle wire...
const OF_CHECKED: u64 = 3;
/// ... and if it is longer by this: a busy wire has queues.
const MORE_THAN_CHECKED_NS: u64 = 1_000_000;

/// Whether a sample is a round trip over a NIC, so that what was measured on its wire compares.
pub(super) fn is_round_trip(sample: &Sample) -> bool {
    sample.kind == SuspectKind::Nic
        && sample.group != RDMA_GROUP
        && !sample.group.starts_with(WIRE_GROUP)
}

/// Whether a round trip is far beyond what was measured.
pub(super) fn is_beyond(now_ns: u64, checked_ns: u64) -> bool {
    now_ns >= checked_ns.saturating_mul(OF_CHECKED)
        && now_ns >= checked_ns.saturating_add(MORE_THAN_CHECKED_NS)
}

/// Multiples are in tenths.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowRule {
    /// This many times what the others take.
    others_tenths: u64,
    /// And this many times its own baseline, where that is known, beyond what made the others
    /// slower too.
    usual_tenths: u64,
    /// A subject without a known baseline is never slow: some are farther away than others.
    needs_usual: bool,
    /// Without others: this many times its own baseline; `None` if a lone subject is never named.
    alone_tenths: Option<u64>,
    /// And longer by this.
    floor_ns: u64,
    /// What makes the others slower adds to the time of all; if false, it multiplies it.
    adds_up: bool,
    /// Others that take longer by nature are no measure.
    sees_past_others: bool,
}

impl SlowRule {
    pub(super) fn of(sample: &Sample) -> Self {
        match sample.kind {
            SuspectKind::Nic if sample.group.starts_with(SHORTEST_GROUP) => Self {
                others_tenths: 13,
                usual_tenths: 13,
                needs_usual: false,
                alone_tenths: Some(20),
                floor_ns: 80_000,
                adds_up: false,
                sees_past_others: true,
            },
            SuspectKind::Nic | SuspectKind::Peer if sample.group.starts_with(WIRE_GROUP) => Self {
                others_tenths: 30,
                usual_tenths: 30,
                needs_usual: true,
                alone_tenths: (sample.kind == SuspectKind::Nic).then_some(40),
                floor_ns: 1_000_000,
                adds_up: false,
                sees_past_others: sample.kind == SuspectKind::Nic,
            },
            // Buckets of powers of two.
            SuspectKind::Nic => Self {
                others_tenths: 30,
                usual_tenths: 20,
                needs_usual: false,
                alone_tenths: (sample.group != RDMA_GROUP).then_some(40),
                floor_ns: 200_000,
                adds_up: false,
                sees_past_others: sample.group != RDMA_GROUP,
            },
            SuspectKind::Peer if sample.group == STILL_GROUP => Self {
                others_tenths: 40,
                usual_tenths: 40,
                needs_usual: true,
                alone_tenths: Some(40),
                floor_ns: 3_000_000,
                adds_up: false,
                sees_past_others: false,
            },
            SuspectKind::Peer => Self {
                others_tenths: 25,
                usual_tenths: 20,
                needs_usual: true,
                alone_tenths: None,
                floor_ns: 200_000,
                adds_up: false,
                sees_past_others: false,
            },
            // Nanoseconds of each second.
            SuspectKind::Shard => Self {
                others_tenths: 20,
                usual_tenths: 20,
                needs_usual: false,
                alone_tenths: Some(30),
                floor_ns: STARVED_NS,
                // Waits grow from almost nothing, so multiples of them mean nothing.
                adds_up: true,
                sees_past_others: false,
            },
            SuspectKind::Disk => Self {
                others_tenths: 40,
                usual_tenths: 40,
                needs_usual: false,
                alone_tenths: Some(40),
                floor_ns: 3_000_000,
                adds_up: false,
                sees_past_others: false,
            },
        }
    }

    /// The same for a subject whose baseline starts over: it has to be learned first.
    pub(super) fn after(self, starts_over: bool) -> Self {
        Self { needs_usual: self.needs_usual || starts_over, ..self }
    }

    pub(super) fn needs_usual(&self) -> bool {
        self.needs_usual
    }

    /// `usual_ns` is unknown for who was slow from the first turn on: then only the others count.
    pub(super) fn verdict(
        &self,
        now_ns: u64,
        usual_ns: Option<u64>,
        comparison: &PeerBaseline,
    ) -> Grade {
        let expected_ns = usual_ns.map(|usual| {
            if self.adds_up {
                usual.saturating_add(comparison.others_increase_ns)
            } else {
                usual.saturating_mul(comparison.others_slowdown_tenths) / 10
            }
        });
        if self.needs_usual && usual_ns.is_none() {
            return Grade::Good;
        }
        let references = match (comparison.others_ns, usual_ns, self.alone_tenths) {
            (Some(_), Some(usual), _) if self.is_hidden(usual, comparison) => {
                [expected_ns.map(|expected| (expected, HIDDEN_TENTHS)), None]
            }
            (Some(others), _, _) => [
                Some((others, self.others_tenths)),
                expected_ns.map(|expected| (expected, self.usual_tenths)),
            ],
            (None, Some(usual), Some(tenths)) if !comparison.is_crowded => {
                [Some((usual, tenths)), None]
            }
            (None, ..) => return Grade::Good,
        };
        let mut verdict = Grade::ClearlySlow;
        for (reference, tenths) in references.into_iter().flatten() {
            if now_ns < reference.saturating_mul(tenths) / 10
                || now_ns < reference.saturating_add(self.floor_ns)
            {
                return Grade::Good;
            }
            if now_ns < reference.saturating_mul(CLEAR_TENTHS.max(tenths)) / 10 {
                verdict = Grade::Slow;
            }
        }
        verdict
    }

    /// Whether the others take longer by nature than this one does when it is slow.
    fn is_hidden(&self, usual_ns: u64, comparison: &PeerBaseline) -> bool {
        let longer = |others: u64| {
            others >= usual_ns.saturating_mul(BY_NATURE_TENTHS) / 10
                && others >= usual_ns.saturating_add(self.floor_ns)
        };
        let by_nature = comparison.others_usual_ns.is_some_and(longer);
        self.sees_past_others && by_nature && !comparison.is_crowded
    }
}
