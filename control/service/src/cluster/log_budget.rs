//! How much is written about segments and clients that come and go: a peer that mounts and unmounts
//! in a loop must neither fill the disk nor silence what is said about others. Invariant: lines
//! that were left out are counted, and the next line about the same peer gives their number.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Lines about one peer that may come at once...
const BURST: u64 = 1024;
/// ... and each further one after so many milliseconds.
const LINE_MS: u64 = 50;
/// Peers with a budget of their own; further ones share one until some of these have been quiet for
/// long enough.
const PEERS_MAX: usize = 1024;

/// The budgets of one shard: of each address, and of all whose address is not known.
#[derive(Debug, Default)]
pub(crate) struct LogBudget(RefCell<BTreeMap<Option<IpAddr>, HostBudget>>);

#[derive(Debug, Default)]
struct HostBudget {
    /// Until when the lines of now are paid for.
    paid_until_ms: u64,
    left_out: u64,
}

impl HostBudget {
    fn line(&mut self, now_ms: u64) -> Option<u64> {
        let paid_ms = self.paid_until_ms.max(now_ms) + LINE_MS;
        if paid_ms > now_ms + BURST * LINE_MS {
            self.left_out += 1;
            return None;
        }
        self.paid_until_ms = paid_ms;
        Some(std::mem::take(&mut self.left_out))
    }

    /// Whether it is to be remembered: lines are not paid for yet, or were left out not long ago.
    fn is_spent(&self, now_ms: u64) -> bool {
        let said_until_ms = self.paid_until_ms + BURST * LINE_MS * u64::from(self.left_out > 0);
        said_until_ms > now_ms
    }
}

impl LogBudget {
    /// Whether a line about a peer may be written now; if so, how many were left out before it.
    pub(super) fn line(&self, now_ms: u64, peer: Option<IpAddr>) -> Option<u64> {
        let mut budgets = self.0.borrow_mut();
        if budgets.len() >= PEERS_MAX && !budgets.contains_key(&peer) {
            budgets.retain(|_, budget| budget.is_spent(now_ms));
        }
        let is_full = budgets.len() >= PEERS_MAX && !budgets.contains_key(&peer);
        let peer = if is_full { None } else { peer };
        let line = budgets.entry(peer).or_default().line(now_ms);
        debug_assert!(budgets.len() <= PEERS_MAX + 1, "further peers share one budget");
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn peer(number: u32) -> Option<IpAddr> {
        Some(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn a_burst_is_written_and_a_flood_is_counted() {
        let budget = LogBudget::default();
        let line = |now_ms| budget.line(now_ms, peer(1));
        let lines = (0..10_000).filter(|_| line(5).is_some()).count() as u64;
        assert_eq!(lines, BURST);
        assert_eq!(line(5 + LINE_MS), Some(10_000 - BURST));
        assert_eq!(line(5 + LINE_MS), None);
        assert_eq!(line(5 + 3 * LINE_MS), Some(1));
    }

    #[test]
    fn a_flood_of_one_peer_silences_no_other() {
        let budget = LogBudget::default();
        for _ in 0..10_000 {
            budget.line(5, peer(1));
        }
        assert_eq!(budget.line(5, peer(1)), None);
        assert_eq!(budget.line(5, peer(2)), Some(0));
        assert_eq!(budget.line(5, None), Some(0));
    }

    #[test]
    fn a_flood_of_many_addresses_takes_bounded_memory_and_ends() {
        let budget = LogBudget::default();
        for number in 0..10_000 {
            budget.line(5, peer(number));
        }
        assert!(budget.0.borrow().len() <= PEERS_MAX + 1);
        assert_eq!(budget.line(5 + 2 * BURST * LINE_MS, peer(20_000)), Some(0));
        assert_eq!(budget.0.borrow().len(), 1, "quiet peers are forgotten");
    }
}
