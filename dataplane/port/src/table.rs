//! The connections of one port, and which of them goes when there are too many.

use crate::connection::Connection;
use crate::limits::ADDRESS_SHARE;
use crate::signal::WakerList;
use perigee_shard::{Environment, Stream};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

/// Open connections by number.
pub(crate) struct ConnectionTable<E: Environment, T> {
    open: RefCell<BTreeMap<u64, Rc<Connection<E, T>>>>,
    next: Cell<u64>,
    /// Raised whenever one leaves.
    departures: WakerList,
}

/// The order in which connections are given up for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    CrowdedStranger,
    Stranger,
    CrowdedMember,
}

impl<E: Environment, T> ConnectionTable<E, T> {
    pub(crate) fn new() -> Self {
        Self { open: RefCell::default(), next: Cell::new(0), departures: WakerList::default() }
    }

    pub(crate) fn count(&self) -> usize {
        self.open.borrow().len()
    }

    pub(crate) fn enter(&self, connection: Rc<Connection<E, T>>) -> u64 {
        let number = self.next.replace(self.next.get() + 1);
        self.open.borrow_mut().insert(number, connection);
        number
    }

    pub(crate) fn leave(&self, number: u64) {
        self.open.borrow_mut().remove(&number);
        self.departures.raise();
    }

    pub(crate) fn for_each(&self, mut look: impl FnMut(&Connection<E, T>)) {
        self.open.borrow().values().for_each(|open| look(open));
    }

    /// Resolves when the connection of a number has left.
    pub(crate) async fn left(&self, number: u64) {
        self.departures.wait_until(|| !self.open.borrow().contains_key(&number)).await;
    }

    /// Resolves when all have left.
    pub(crate) async fn emptied(&self) {
        self.departures.wait_until(|| self.open.borrow().is_empty()).await;
    }

    /// Breaks the connection that goes for one more from `newcomer`: the longest silent stranger,
    /// first from addresses with more than their share, then a member of such an address if the
    /// newcomer's address has less.
    pub(crate) fn give_one_up(&self, newcomer: Option<IpAddr>) -> Option<u64> {
        let open = self.open.borrow();
        let mut by_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for address in open.values().filter_map(|connection| connection.address()) {
            *by_address.entry(address).or_default() += 1;
        }
        let share = open.len() / ADDRESS_SHARE;
        let is_crowded = |address: Option<IpAddr>| {
            address.is_some_and(|address| by_address.get(&address).is_some_and(|own| *own > share))
        };
        let newcomer_is_crowded = is_crowded(newcomer);
        let rank = |connection: &Connection<E, T>| match (
            is_crowded(connection.address()),
            connection.is_known(),
        ) {
            (true, false) => Some(Rank::CrowdedStranger),
            (false, false) => Some(Rank::Stranger),
            (true, true) if !newcomer_is_crowded => Some(Rank::CrowdedMember),
            _ => None,
        };
        let (_, number) = open
            .iter()
            .filter_map(|(number, open)| Some(((rank(open)?, open.heard()), *number)))
            .min()?;
        if let Some(connection) = open.get(&number) {
            connection.stream().shutdown();
        }
        Some(number)
    }
}
