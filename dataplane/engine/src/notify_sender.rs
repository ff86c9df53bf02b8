//! Delivers the notifies of asynchronous batches, on a thread of its own because a delivery waits
//! for the peer.
//! Invariant: the queue is bounded; what does not fit is dropped with a word in the log, never
//! waited for.

use crate::limits::HERALD_QUEUE_MAX;
use crate::question::ask;
use crate::request::Notify;
use perigee_discovery::{Directory, HandshakeClient, NotifyMessage};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use crate::error::EngineError;

/// Sends notifies to peers.
#[derive(Debug)]
pub(crate) struct NotifySender {
    directory: Directory,
    client: HandshakeClient,
    queue: Mutex<Option<SyncSender<(String, Notify)>>>,
}

impl NotifySender {
    pub(crate) fn new(directory: Directory, client: HandshakeClient) -> Self {
        Self { directory, client, queue: Mutex::default() }
    }

    /// Delivers a notify and waits for the peer's word. It may still be delivered if the caller
    /// breaks off.
    pub(crate) fn deliver(&self, segment: &str, notify: Notify) -> Result<(), EngineError> {
        let (directory, client) = (self.directory.clone(), self.client.clone());
        let segment = segment.to_owned();
        ask(move || deliver(&directory, &client, &segment, notify))
    }

    /// Delivers a notify some time soon.
    pub(crate) fn post(&self, segment: &str, notify: Notify) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.is_none() {
            *queue = self.start();
        }
        let posted = queue
            .as_ref()
            .is_some_and(|queue| queue.try_send((segment.to_owned(), notify)).is_ok());
        if !posted {
            tracing::warn!(segment, "A notify was dropped: too many wait to be delivered");
        }
    }

    /// Ends the thread once it has delivered what is queued.
    pub(crate) fn close(&self) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn start(&self) -> Option<SyncSender<(String, Notify)>> {
        let (send, receive) = sync_channel(HERALD_QUEUE_MAX);
        let (directory, client) = (self.directory.clone(), self.client.clone());
        let work = move || serve(&directory, &client, &receive);
        let builder = std::thread::Builder::new().name("perigee-notify".to_owned());
        builder.spawn(work).ok().map(|_| send)
    }
}

fn serve(directory: &Directory, client: &HandshakeClient, queue: &Receiver<(String, Notify)>) {
    while let Ok((segment, notify)) = queue.recv() {
        if let Err(error) = deliver(directory, client, &segment, notify) {
            tracing::warn!(%error, segment, "A notify was not delivered");
        }
    }
}

fn deliver(
    directory: &Directory,
    client: &HandshakeClient,
    segment: &str,
    notify: Notify,
) -> Result<(), EngineError> {
    let message = NotifyMessage { name: notify.name, message: notify.message };
    Ok(client.notify(&directory.rpc_meta(segment)?, &message)?)
}
