//! The ledger of a process on a thread of its own, for the threads of a store.
//! Invariant: a store without this thread works all the same; its objects do not outlive the
//! master.

use super::segment_ledger::{Prepared, SegmentLedger};
use super::void_copies::VoidCopies;
use perigee_rpc::MasterClient;
use perigee_schemas::Identity;
use perigee_schemas::master::Announces;
use perigee_shard::{Environment, ShardEnvironment, ShardOf, ShardOptions};
use perigee_transfer::SegmentTable;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait for the thread to come up, to end, or to answer.
const DEADLINE: Duration = Duration::from_secs(2);
/// Longest wait until it knows what lies in all segments: a second for a million objects.
const PREPARE_DEADLINE: Duration = Duration::from_secs(60);
/// Pause between two looks whether the thread is to end.
const LOOK: Duration = Duration::from_millis(50);

/// The running thread; it starts with the first segment.
pub(crate) struct LedgerKeeper {
    master: Arc<MasterClient>,
    is_lost: Arc<dyn Fn() + Send + Sync>,
    void: VoidCopies,
    segments: Arc<SegmentTable>,
    thread: Mutex<Option<ShardOf<SegmentLedger<ShardEnvironment>>>>,
}

impl LedgerKeeper {
    /// No thread runs yet. `is_lost` is called when a master has broken off.
    pub(crate) fn new(
        master: &Arc<MasterClient>,
        segments: &Arc<SegmentTable>,
        is_lost: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let (master, is_lost) = (master.clone(), Arc::new(is_lost));
        let (void, segments) = (VoidCopies::default(), segments.clone());
        Self { master, is_lost, void, segments, thread: Mutex::default() }
    }

    /// What the master has said of copies on disks.
    pub(crate) fn void(&self) -> &VoidCopies {
        &self.void
    }

    /// Keeps the book of a segment from now on, if that can be; what is to be announced of it.
    pub(crate) fn add(&self, segment: Identity, bytes: u64) -> Announces {
        self.begin();
        let add = move |ledger: &Rc<SegmentLedger<ShardEnvironment>>, sender: Sender<Announces>| {
            let announces = match ledger.add(segment, bytes) {
                Ok(()) => Announces::Space,
                Err(error) => {
                    tracing::warn!(%segment, %error, "Objects will not outlive the master");
                    Announces::Nothing
                }
            };
            let _ = sender.send(announces);
        };
        self.ask(DEADLINE, add).unwrap_or(Announces::Nothing)
    }

    /// Waits until each shard of the master tells what becomes of a segment, which is mounted: it
    /// takes no puts before. Not for long: the segment does without.
    pub(crate) fn follow(&self, segment: Identity) {
        let followed = self.ask(DEADLINE, move |ledger, sender| {
            let (ledger, environment) = (ledger.clone(), ledger.environment.clone());
            environment.spawn(async move {
                ledger.followed(segment).await;
                let _ = sender.send(());
            });
        });
        if followed.is_none() {
            tracing::debug!(%segment, "The master does not tell what becomes of it yet");
        }
    }

    /// The segments have been mounted again.
    pub(crate) fn mounted(&self) {
        self.with(|ledger| ledger.mounted());
    }

    /// A segment is gone.
    pub(crate) fn remove(&self, segment: Identity) {
        self.with(move |ledger| ledger.remove(segment));
    }

    /// What a master in this life must know before the segments are mounted again; `None` while
    /// that is not known.
    pub(crate) fn prepare(&self, life: u64) -> Option<Prepared> {
        if self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Some(Prepared::default());
        }
        self.ask(PREPARE_DEADLINE, move |ledger, sender| {
            let (ledger, environment) = (ledger.clone(), ledger.environment.clone());
            environment.spawn(async move {
                let _ = sender.send(ledger.prepare(life).await);
            });
        })
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.with(|ledger| ledger.stop());
            if let Err(error) = thread.join(DEADLINE) {
                tracing::debug!(%error, "The ledger's thread did not stop in time");
            }
        }
    }

    /// What the thread answers; `None` if it does not.
    fn ask<R: Send + 'static>(
        &self,
        deadline: Duration,
        work: impl FnOnce(&Rc<SegmentLedger<ShardEnvironment>>, Sender<R>) + Send + 'static,
    ) -> Option<R> {
        let (send, receive) = channel();
        self.with(move |ledger| work(ledger, send));
        receive.recv_timeout(deadline).ok()
    }

    fn begin(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            *thread = self.start();
        }
    }

    fn with(&self, work: impl FnOnce(&Rc<SegmentLedger<ShardEnvironment>>) + Send + 'static) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*thread {
            thread.with(work);
        }
    }

    fn start(&self) -> Option<ShardOf<SegmentLedger<ShardEnvironment>>> {
        let (master, is_lost) = (self.master.clone(), self.is_lost.clone());
        let (void, segments) = (self.void.clone(), self.segments.clone());
        // No caller waits for what it does: it does not poll.
        let options =
            ShardOptions { poll: Duration::ZERO, ..ShardOptions::named("perigee-ledger") };
        let make = async move |environment: &ShardEnvironment| {
            let client = master.client();
            let addresses = move || master.addresses();
            let is_lost = move || is_lost();
            let ledger =
                SegmentLedger::new(environment, client, addresses, is_lost, &void, &segments);
            Ok::<_, std::convert::Infallible>((ledger, ()))
        };
        let run = async |ledger: Rc<SegmentLedger<ShardEnvironment>>| {
            while !ledger.is_stopped.get() {
                ledger.environment.sleep(LOOK).await;
            }
        };
        match ShardOf::start(options, DEADLINE, make, run) {
            Ok((thread, ())) => Some(thread),
            Err(error) => {
                tracing::warn!(%error, "Objects in the segments of this process will not outlive the master");
                None
            }
        }
    }
}

impl std::fmt::Debug for LedgerKeeper {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LedgerKeeper").finish_non_exhaustive()
    }
}
