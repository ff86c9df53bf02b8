//! The client's own thread: heartbeats, mounting again after the master was restarted, dropping
//! stale mappings.

use crate::disks::Disks;
use crate::donation::Donation;
use crate::ledger::{LedgerKeeper, Prepared};
use crate::limits::{HEARTBEAT, HEARTBEAT_STOP, REMOUNT_PAUSE};
use crate::mover::ReplicaMover;
use perigee_rpc::{LentSegments, MasterClient, MountForm};
use perigee_schemas::{Identity, Status};
use perigee_transfer::ObjectEngine;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The running thread.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    stop: Arc<HeartbeatNotify>,
    reachable: Arc<AtomicBool>,
    ended: Mutex<Receiver<()>>,
}

#[derive(Debug, Default)]
pub(crate) struct HeartbeatNotify {
    orders: Mutex<HeartbeatOrders>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct HeartbeatOrders {
    /// The thread is to end.
    stop: bool,
    /// The next heartbeat is to come at once.
    hurry: bool,
}

struct Beat {
    master: Arc<MasterClient>,
    donation: Arc<Donation>,
    engine: Arc<ObjectEngine>,
    mover: Arc<ReplicaMover>,
    ledger: Arc<LedgerKeeper>,
    disks: Arc<Disks>,
    stop: Arc<HeartbeatNotify>,
    /// Whether the last heartbeat was answered.
    reachable: Arc<AtomicBool>,
    /// What the master refused to mount again the last time.
    refused: RefCell<Vec<(Identity, Status)>>,
}

impl Heartbeat {
    pub(crate) fn start(
        master: Arc<MasterClient>,
        donation: Arc<Donation>,
        engine: Arc<ObjectEngine>,
        mover: Arc<ReplicaMover>,
        ledger: Arc<LedgerKeeper>,
        disks: Arc<Disks>,
        stop: Arc<HeartbeatNotify>,
    ) -> std::io::Result<Self> {
        let reachable = Arc::new(AtomicBool::new(true));
        let (end, ended) = channel();
        let beat = Beat {
            master,
            donation,
            engine,
            mover,
            ledger,
            disks,
            stop: stop.clone(),
            reachable: reachable.clone(),
            refused: RefCell::default(),
        };
        std::thread::Builder::new().name("perigee-beat".to_owned()).spawn(move || {
            let mut pause = HEARTBEAT;
            while !beat.stop.wait(pause) {
                pause = beat.once();
            }
            // The caller has stopped waiting if the last heartbeat took too long.
            let _ = end.send(());
        })?;
        Ok(Self { stop, reachable, ended: Mutex::new(ended) })
    }

    /// Ends the thread; whether the master can be expected to hear a farewell. A thread that waits
    /// for a silent master is left to end by itself.
    pub(crate) fn stop(self) -> bool {
        self.stop.notify(|orders| orders.stop = true);
        let ended = self.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.recv_timeout(HEARTBEAT_STOP).is_ok() && self.reachable.load(Ordering::Acquire)
    }
}

impl HeartbeatNotify {
    /// The master has broken off: the next heartbeat looks for it at once.
    pub(crate) fn hurry(&self) {
        self.notify(|orders| orders.hurry = true);
    }

    fn notify(&self, what: impl FnOnce(&mut HeartbeatOrders)) {
        what(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn has_come(&self) -> bool {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).stop
    }

    /// True when the stop has come.
    fn wait(&self, pause: Duration) -> bool {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let is_quiet = |orders: &mut HeartbeatOrders| !orders.stop && !orders.hurry;
        let waited = self.changed.wait_timeout_while(orders, pause, is_quiet);
        let mut orders = waited.unwrap_or_else(PoisonError::into_inner).0;
        orders.hurry = false;
        orders.stop
    }
}

impl Beat {
    /// One heartbeat; returns the pause until the next.
    fn once(&self) -> Duration {
        self.engine.sweep();
        self.donation.give_back_due(Instant::now());
        let lent = LentSegments { disks: self.disks.reports(), ..self.donation.holdings() };
        match self.master.ping(&lent) {
            Ok(pong) => {
                if !self.reachable.swap(true, Ordering::AcqRel) {
                    tracing::info!("The master answers again");
                }
                self.mover.set_wanted(pong.has_moves);
                self.disks.set_promotes(pong.promotes);
                if pong.promotes {
                    self.mover.begin();
                }
                if pong.has_disk_work {
                    self.disks.notify();
                }
                if !pong.must_mount || self.stop.has_come() || self.mount(pong.epoch) {
                    HEARTBEAT
                } else {
                    REMOUNT_PAUSE
                }
            }
            Err(error) => {
                if self.reachable.swap(false, Ordering::AcqRel) {
                    tracing::warn!(%error, "The master does not answer; calls fail until it does");
                }
                REMOUNT_PAUSE
            }
        }
    }

    /// Logs what came of mounting again; what is refused each time is logged once.
    fn tell(&self, verdicts: Vec<(Identity, Status)>) {
        let (mounted, refused): (Vec<_>, Vec<_>) =
            verdicts.into_iter().partition(|(_, status)| *status == Status::Ok);
        let before = self.refused.replace(refused.clone());
        for (segment, status) in refused.iter().filter(|verdict| !before.contains(verdict)) {
            tracing::warn!(%segment, %status, "The master refused to mount a segment again");
        }
        if !mounted.is_empty() && (refused.is_empty() || refused != before) {
            let segments = mounted.len();
            tracing::info!(
                segments,
                "Mounted again: the master did not know all of this client's segments"
            );
        }
    }

    /// Mounts all again, in this life of the master.
    fn mount(&self, life: u64) -> bool {
        let Some(Prepared { announces, generation }) = self.ledger.prepare(life) else {
            tracing::warn!("Cannot mount again yet: what lies in the segments is still looked for");
            return false;
        };
        let (offers, number) = self.donation.offers_again(self.master.knows_disks());
        let form = MountForm { is_remount: true, number, announces: &announces, generation };
        match self.master.mount_as(&offers, &form) {
            Ok(statuses) => {
                debug_assert_eq!(statuses.len(), offers.len(), "one answer per segment");
                self.ledger.mounted();
                let verdicts = offers.iter().map(|offer| offer.id).zip(statuses);
                self.tell(verdicts.collect());
                self.disks.note_mounted();
                true
            }
            Err(error) => {
                tracing::warn!(%error, "Cannot mount again");
                false
            }
        }
    }
}
