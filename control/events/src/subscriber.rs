//! One subscriber: it is sent each batch from its subscription on.
//! Invariant: a subscriber that reads slowly misses batches and sees the gap; nothing is kept for
//! it.

use crate::message_run::TOPIC;
use crate::publisher_state::{Cursor, PublisherState};
use crate::server::Streams;
use crate::zmtp::greeting::SocketKind;
use crate::zmtp::peer::{PeerMessage, PeerReader, PeerWriter, greet};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// PONGs that wait while a batch is sent; a peer that asks more often gets fewer.
const PONGS_MAX: usize = 4;

struct Subscriber {
    state: Rc<PublisherState>,
    /// Subscriptions that match the topic.
    subscriptions: Cell<u32>,
    cursor: Cursor,
}

/// Serves a subscriber until it goes.
pub(crate) async fn serve_subscriber(
    state: Rc<PublisherState>,
    (from, to): Streams,
) -> io::Result<()> {
    let (reader, writer) = greet(SocketKind::Publisher, from, to).await?;
    let (pongs, waiting) = channel(PONGS_MAX);
    let cursor = state.join();
    let subscriber = Subscriber { state, subscriptions: Cell::new(0), cursor };
    // Both directions run until one ends: a frame that was read in part is never dropped.
    tokio::select! {
        ended = subscriber.listen(reader, pongs) => ended,
        ended = subscriber.send(writer, waiting) => ended,
    }
}

impl Subscriber {
    async fn listen(&self, mut reader: PeerReader, pongs: Sender<Vec<u8>>) -> io::Result<()> {
        loop {
            match reader.next().await? {
                PeerMessage::Subscription { topic, is_wanted } => self.subscribe(&topic, is_wanted),
                PeerMessage::Frames(frames) => match frames.first().map(Vec::as_slice) {
                    Some([1, topic @ ..]) => self.subscribe(topic, true),
                    Some([0, topic @ ..]) => self.subscribe(topic, false),
                    _ => {}
                },
                PeerMessage::Pong(pong) => {
                    let _ = pongs.try_send(pong);
                }
            }
        }
    }

    /// A subscription is for what begins with its topic, and the topic here is empty.
    fn subscribe(&self, topic: &[u8], is_wanted: bool) {
        if !TOPIC.starts_with(topic) {
            return;
        }
        let before = self.subscriptions.get();
        let after = if is_wanted { before.saturating_add(1) } else { before.saturating_sub(1) };
        self.subscriptions.set(after);
        match (before, after) {
            (0, 1..) => self.cursor.follow(),
            (1.., 0) => self.cursor.rest(),
            _ => {}
        }
    }

    async fn send(&self, mut writer: PeerWriter, mut pongs: Receiver<Vec<u8>>) -> io::Result<()> {
        let mut updates = self.state.updates();
        loop {
            while let Some((next, run)) = self.cursor.advance() {
                writer.send_wire(run.from(next)).await?;
            }
            tokio::select! {
                Some(pong) = pongs.recv() => writer.send_command(&pong).await?,
                changed = updates.changed() => changed.map_err(io::Error::other)?,
            }
        }
    }
}
