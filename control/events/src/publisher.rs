//! The thread that publishes what shards report, and serves consumers.
//! Invariant: it listens before it says that it has started, and ends when it is stopped or
//! dropped.

use crate::counts::{EventCounts, SharedCounts};
use crate::endpoint::{BoundEndpoint, Endpoint};
use crate::error::EventsError;
use crate::limits::STOP_DEADLINE;
use crate::publisher_state::PublisherState;
use crate::replay::serve_replay;
use crate::server::serve;
use crate::settings::EventSettings;
use crate::subscriber::serve_subscriber;
use perigee_master::KeyEventQueue;
use std::io;
use std::rc::Rc;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// A running publisher; its thread ends when it is stopped or dropped.
#[derive(Debug)]
pub struct EventPublisher {
    queues: Vec<KeyEventQueue>,
    counts: Arc<SharedCounts>,
    stop: Arc<Notify>,
    /// Closed when the thread has ended.
    ended: Mutex<mpsc::Receiver<()>>,
    publish: Endpoint,
    replay: Option<Endpoint>,
}

/// Arguments of the publishing thread.
struct PublisherStart {
    settings: EventSettings,
    publish: BoundEndpoint,
    replay: Option<BoundEndpoint>,
    queues: Vec<KeyEventQueue>,
    counts: Arc<SharedCounts>,
    events: Arc<Notify>,
    stop: Arc<Notify>,
}

impl EventPublisher {
    /// Listens, and starts to publish what `shards` shards report.
    ///
    /// # Errors
    /// An endpoint is taken or not of this host; the message says what to change.
    pub fn start(settings: &EventSettings, shards: usize) -> Result<Self, EventsError> {
        let publish = settings.publish.bind()?;
        let replay = settings.replay.as_ref().map(Endpoint::bind).transpose()?;
        let events = Arc::new(Notify::new());
        let capacity = match settings.queue_capacity {
            0 => usize::MAX,
            capacity => capacity,
        };
        let queue = |_| {
            let events = events.clone();
            KeyEventQueue::new(capacity, move || events.notify_one())
        };
        let queues: Vec<KeyEventQueue> = (0..shards).map(queue).collect();
        let (counts, stop) = (Arc::<SharedCounts>::default(), Arc::new(Notify::new()));
        let place = |bound: &BoundEndpoint| bound.endpoint().map_err(EventsError::Thread);
        let (at, replay_at) = (place(&publish)?, replay.as_ref().map(place).transpose()?);
        let start = PublisherStart {
            settings: settings.clone(),
            publish,
            replay,
            queues: queues.clone(),
            counts: counts.clone(),
            events,
            stop: stop.clone(),
        };
        let (running, ended) = mpsc::channel();
        let work = move || {
            let _running = running;
            if let Err(error) = start.run() {
                tracing::error!(%error, "KV events are not published any more");
            }
        };
        let thread = std::thread::Builder::new().name("perigee-events".to_owned());
        thread.spawn(work).map_err(EventsError::Thread)?;
        let ended = Mutex::new(ended);
        Ok(Self { queues, counts, stop, ended, publish: at, replay: replay_at })
    }

    /// Where a shard reports its keys.
    pub fn queue(&self, shard: usize) -> Option<KeyEventQueue> {
        self.queues.get(shard).cloned()
    }

    /// Where subscribers connect.
    pub fn publish_endpoint(&self) -> &Endpoint {
        &self.publish
    }

    /// Where consumers ask for what they missed.
    pub fn replay_endpoint(&self) -> Option<&Endpoint> {
        self.replay.as_ref()
    }

    /// Counts since the start of the thread.
    pub fn counts(&self) -> EventCounts {
        self.counts.read()
    }

    /// Ends the thread and all connections.
    pub fn stop(&self) {
        self.stop.notify_one();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(STOP_DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("The thread that publishes KV events did not stop in time");
        }
    }
}

impl Drop for EventPublisher {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

impl PublisherStart {
    fn run(self) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, self.publish())
    }

    async fn publish(self) -> io::Result<()> {
        let state = Rc::new(PublisherState::new(self.settings, self.queues, self.counts));
        let publishing = state.clone();
        let subscribers =
            serve(self.publish, move |streams| serve_subscriber(publishing.clone(), streams));
        let replaying = state.clone();
        let replays = async {
            match self.replay {
                Some(bound) => {
                    serve(bound, move |streams| serve_replay(replaying.clone(), streams)).await
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            failed = subscribers => failed,
            failed = replays => failed,
            () = state.take_events(&self.events) => Ok(()),
            () = self.stop.notified() => Ok(()),
        }
    }
}
