//! The client's own thread: signs of life, mounting again after the master was restarted, dropping stale mappings.

use crate::donation::Donation;
use crate::limits::{HEARTBEAT, REMOUNT_PAUSE};
use perigee_rpc::MasterClient;
use perigee_transfer::Engine;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The running thread.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    stop: Arc<Stop>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Stop {
    wanted: Mutex<bool>,
    bell: Condvar,
}

struct Beat {
    master: Arc<MasterClient>,
    donation: Arc<Donation>,
    engine: Arc<Engine>,
    reachable: bool,
}

impl Heartbeat {
    pub(crate) fn start(
        master: Arc<MasterClient>,
        donation: Arc<Donation>,
        engine: Arc<Engine>,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let theirs = stop.clone();
        let mut beat = Beat {
            master,
            donation,
            engine,
            reachable: true,
        };
        let thread = std::thread::Builder::new()
            .name("perigee-beat".to_owned())
            .spawn(move || {
                let mut pause = HEARTBEAT;
                while !theirs.wait(pause) {
                    pause = beat.once();
                }
            })?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn stop(self) {
        *self
            .stop
            .wanted
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.bell.notify_all();
        let _ = self.thread.join();
    }
}

impl Stop {
    /// True when the stop has come.
    fn wait(&self, pause: Duration) -> bool {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .bell
            .wait_timeout_while(wanted, pause, |wanted| !*wanted);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Beat {
    /// One sign of life; returns the pause until the next.
    fn once(&mut self) -> Duration {
        self.engine.sweep();
        match self.master.ping() {
            Ok(pong) => {
                if !std::mem::replace(&mut self.reachable, true) {
                    tracing::info!("The master answers again");
                }
                if !pong.must_mount || self.mount() {
                    HEARTBEAT
                } else {
                    REMOUNT_PAUSE
                }
            }
            Err(error) => {
                if std::mem::replace(&mut self.reachable, false) {
                    tracing::warn!(%error, "The master does not answer; calls fail until it does");
                }
                REMOUNT_PAUSE
            }
        }
    }

    fn mount(&self) -> bool {
        let offers = self.donation.offers();
        match self.master.mount(&offers, true) {
            Ok(statuses) => {
                let refused = offers
                    .iter()
                    .zip(statuses)
                    .filter_map(|(offer, status)| Some((offer, status.ok().err()?)));
                for (offer, status) in refused {
                    tracing::warn!(segment = %offer.id, %status, "The master refused to mount a segment again");
                }
                if !offers.is_empty() {
                    tracing::info!(
                        segments = offers.len(),
                        "Mounted again: the master did not know this client"
                    );
                }
                true
            }
            Err(error) => {
                tracing::warn!(%error, "Cannot mount again");
                false
            }
        }
    }
}
