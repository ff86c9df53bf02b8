//! Threads that copy for batches that no call waits for. Started with the first one.
//! Invariant: after [`Copiers::close`] none of them touches memory of a batch.

use super::copy_route::CopyRoute;
use crate::limits::{COPIER_QUEUE_MAX, COPIERS_MAX};
use crate::slice::RequestSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A slice and its route.
type CopyJob = (Arc<CopyRoute>, RequestSlice);

/// The threads and their queue.
#[derive(Debug, Default)]
pub(crate) struct Copiers {
    state: Mutex<CopierThreads>,
    closing: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
enum CopierThreads {
    #[default]
    Unused,
    Running(SyncSender<CopyJob>, Vec<JoinHandle<()>>),
    Closed,
}

impl Copiers {
    /// Queues slices. What finds no room in the queue is copied by the calling thread.
    pub(crate) fn submit(
        &self,
        route: &Arc<CopyRoute>,
        slices: impl Iterator<Item = RequestSlice>,
    ) {
        let Some(queue) = self.queue() else {
            // Closed: a slice that is dropped fails.
            return slices.for_each(drop);
        };
        for slice in slices {
            match queue.try_send((route.clone(), slice)) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full((route, slice))) => route.run(slice),
            }
        }
    }

    /// Drops what is queued, which fails it, and waits for the copies under way.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        let state = std::mem::replace(
            &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner),
            CopierThreads::Closed,
        );
        if let CopierThreads::Running(queue, threads) = state {
            drop(queue);
            for thread in threads {
                let _ = thread.join();
            }
        }
    }

    fn queue(&self) -> Option<SyncSender<CopyJob>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, CopierThreads::Unused) {
            *state = self.start();
        }
        match &*state {
            CopierThreads::Running(queue, _) => Some(queue.clone()),
            CopierThreads::Unused | CopierThreads::Closed => None,
        }
    }

    fn start(&self) -> CopierThreads {
        let (send, receive) = sync_channel(COPIER_QUEUE_MAX);
        let receive = Arc::new(Mutex::new(receive));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..cores.clamp(1, COPIERS_MAX)).filter_map(|_| {
            let (jobs, closing) = (receive.clone(), self.closing.clone());
            let builder = std::thread::Builder::new().name("perigee-copier".to_owned());
            builder.spawn(move || work(&jobs, &closing)).ok()
        });
        let threads: Vec<JoinHandle<()>> = threads.collect();
        if threads.is_empty() {
            tracing::warn!("Copy threads could not be started; the caller copies");
            return CopierThreads::Unused;
        }
        CopierThreads::Running(send, threads)
    }
}

fn work(jobs: &Mutex<Receiver<CopyJob>>, closing: &AtomicBool) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((route, slice)) = next else { return };
        if !closing.load(Ordering::Acquire) {
            route.run(slice);
        }
    }
}
