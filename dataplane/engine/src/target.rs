//! A peer's segment as this process reaches it: where, in which life, in which dialect, and the idle connections to it.
//! Invariant: a target never changes; a peer that restarted or moved is another target.

use crate::client::Line;
use crate::limits::IDLE_LINES_MAX;
use crate::rdma::RemoteRails;
use crate::shared_memory::Neighbour;
use crate::ways::Way;
use std::sync::{Arc, Mutex, PoisonError};

/// Which protocol a peer's data port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Ours; the number is the peer's life.
    Own {
        /// Low half of the identity of the peer's life.
        epoch: u64,
    },
    /// Mooncake's.
    Upstream {
        /// Whether the peer answers with status frames.
        with_status: bool,
    },
}

/// A peer's segment.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    /// Where its data port is; the first is preferred for small transfers.
    pub(crate) ways: Box<[Way]>,
    pub(crate) dialect: Dialect,
    /// The way over RDMA, if both sides have rails.
    pub(crate) rails: Option<RemoteRails>,
    /// The way through memory, if the peer is on this host.
    pub(crate) neighbour: Option<Neighbour>,
    idle: Mutex<Vec<Line>>,
}

impl Target {
    pub(crate) fn new(name: &str, ways: Box<[Way]>, dialect: Dialect) -> Self {
        Self {
            name: name.into(),
            ways,
            dialect,
            rails: None,
            neighbour: None,
            idle: Mutex::default(),
        }
    }

    /// The ways, beginning with the one that falls to the `turn`-th connection.
    pub(crate) fn ways_from(&self, turn: usize) -> impl Iterator<Item = &Way> {
        let all = self.ways.len();
        self.ways.iter().cycle().skip(turn % all.max(1)).take(all)
    }

    /// The way of small transfers.
    pub(crate) fn first_way(&self) -> Option<&Way> {
        self.ways.first()
    }

    /// An idle connection that is still open.
    pub(crate) fn take_line(&self) -> Option<Line> {
        loop {
            let line = self
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop()?;
            if line.is_usable() {
                return Some(line);
            }
        }
    }

    /// Keeps a connection for the next call.
    pub(crate) fn keep_line(&self, line: Line) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_LINES_MAX {
            idle.push(line);
        }
    }

    /// Closes idle connections that the peer has closed.
    pub(crate) fn sweep(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(Line::is_usable);
    }

    /// Closes the idle connections and drops mapped memory.
    pub(crate) fn close(&self) {
        self.neighbour.iter().for_each(Neighbour::close);
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}
