//! One direction of a connection: what is on the way. Invariant: the front arrives first, however
//! often it is lost.

use super::link_conditions::LinkConditions;
use super::{Arrival, Core, EndId};
use crate::limits::{RETRANSMISSIONS_MAX, RETRANSMIT, RETRANSMIT_MAX};
use std::collections::VecDeque;
use std::time::Duration;

/// What travels.
#[derive(Debug)]
pub(crate) enum Load {
    Bytes(Vec<u8>),
    /// Nothing more will come.
    Farewell,
    /// The connection is broken.
    Break,
}

#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub(super) loads: VecDeque<(Duration, Load)>,
    /// Bytes that were sent and not read.
    pub(super) unread: usize,
    /// When the wire is free again.
    free_at: Duration,
    lost: u32,
}

impl Core {
    /// Puts a load on its way from an end.
    pub(super) fn put(&mut self, (number, side): EndId, load: Load) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let pipe = &mut connection.pipes[side];
        if matches!(load, Load::Break) {
            pipe.loads.clear();
        }
        let bytes = match &load {
            Load::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        pipe.free_at = pipe.free_at.max(self.now) + self.link_conditions.passage(bytes);
        let last = pipe.loads.back().map_or(Duration::ZERO, |(due, _)| *due);
        let due = last.max(pipe.free_at + self.link_conditions.latency(&self.random));
        pipe.unread += bytes;
        pipe.loads.push_back((due, load));
        self.plan(due.saturating_sub(self.now), Arrival::Front((number, side)));
    }

    pub(super) fn front_arrives(&mut self, (number, side): EndId) {
        while let Some(connection) = self.connections.get_mut(&number) {
            let pipe = &mut connection.pipes[side];
            let hosts = [connection.ends[side].host, connection.ends[1 - side].host];
            match pipe.loads.front() {
                Some((due, _)) if *due <= self.now => {}
                _ => return,
            }
            if !self.passes(hosts[0], hosts[1]) {
                return self.front_is_lost((number, side));
            }
            let Some(pipe) = self.connections.get_mut(&number).map(|found| &mut found.pipes[side])
            else {
                return;
            };
            pipe.lost = 0;
            let Some((_, load)) = pipe.loads.pop_front() else {
                return;
            };
            self.unload((number, side), load);
        }
    }

    fn front_is_lost(&mut self, (number, side): EndId) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let pipe = &mut connection.pipes[side];
        pipe.lost += 1;
        let lost = pipe.lost;
        if lost > RETRANSMISSIONS_MAX {
            pipe.loads.clear();
            return self.break_end((number, side));
        }
        let wait = (RETRANSMIT * (1 << (lost - 1))).min(RETRANSMIT_MAX);
        if let Some((due, _)) = pipe.loads.front_mut() {
            *due = self.now + wait;
        }
        self.note("lost", number, side as u64);
        self.plan(wait, Arrival::Front((number, side)));
    }

    /// A load has come through to the other end.
    fn unload(&mut self, (number, side): EndId, load: Load) {
        let to = (number, 1 - side);
        match load {
            Load::Bytes(mut bytes) => {
                if LinkConditions::happens(self.link_conditions.reset_odds, &self.random) {
                    return self.break_connection(number);
                }
                if LinkConditions::happens(self.link_conditions.flip_odds, &self.random) {
                    let at = self.random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << self.random.below(8);
                    self.note("bit flips", number, at as u64);
                }
                self.note("bytes", number * 2 + side as u64, bytes.len() as u64);
                self.deliver(to, &bytes);
            }
            Load::Farewell => self.hear_farewell(to),
            Load::Break => self.break_end(to),
        }
    }
}
