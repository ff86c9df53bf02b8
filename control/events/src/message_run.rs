//! Messages with successive numbers, in wire form, one behind the other: what subscribers are sent
//! as it is, and consumers replay.
//! Invariant: a run that is kept has at least one message, and its numbers have no gap.

use crate::batch::{BatchEncoder, OpenBatch};
use crate::limits::{BATCH_EVENTS_MAX, RUN_BYTES_MAX};
use crate::published_event::PublishedEvent;
use crate::zmtp::frame::{begin_message, end_message};

/// The topic of every message.
pub(crate) const TOPIC: &[u8] = b"";
/// Bytes of the frame of the topic.
pub(crate) const TOPIC_FRAME_BYTES: usize = 2;

/// An event of a short key, roughly.
const EVENT_BYTES: usize = 512;

/// Some messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MessageRun {
    first: u64,
    bytes: Vec<u8>,
    /// Where each message begins.
    starts: Vec<u32>,
    events: u64,
}

/// A message that is not whole yet.
struct OpenMessage {
    body: usize,
    batch: OpenBatch,
}

/// A run that is being written.
pub(crate) struct RunDraft<'a> {
    encoder: &'a BatchEncoder,
    run: MessageRun,
    open: Option<OpenMessage>,
}

impl MessageRun {
    pub(crate) fn messages(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Its memory, if that is worth keeping.
    pub(crate) fn into_spare(mut self) -> Option<Vec<u8>> {
        self.bytes.clear();
        (self.bytes.capacity() >= RUN_BYTES_MAX).then_some(self.bytes)
    }

    /// The number behind that of its last message.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.starts.len() as u64
    }

    /// Its messages from a number on.
    pub(crate) fn from(&self, number: u64) -> &[u8] {
        &self.bytes[self.start_of(number)..]
    }

    /// The number of each message from a number on, and its bytes.
    pub(crate) fn each_from(&self, number: u64) -> impl Iterator<Item = &[u8]> {
        let first = number.saturating_sub(self.first) as usize;
        let starts = self.starts.iter().skip(first).map(|start| *start as usize);
        let ends = self.starts.iter().skip(first + 1).map(|start| *start as usize);
        let spans = starts.zip(ends.chain([self.bytes.len()]));
        spans.map(|(start, end)| &self.bytes[start..end])
    }

    fn start_of(&self, number: u64) -> usize {
        let at = number.saturating_sub(self.first) as usize;
        self.starts.get(at).map_or(self.bytes.len(), |start| *start as usize)
    }
}

impl<'a> RunDraft<'a> {
    /// A run without messages.
    pub(crate) fn new(encoder: &'a BatchEncoder, first: u64) -> Self {
        let run = MessageRun { first, bytes: Vec::new(), starts: Vec::new(), events: 0 };
        Self { encoder, run, open: None }
    }

    /// Takes `memory` of a size for so many events, as far as a run has them.
    pub(crate) fn expect(&mut self, events: usize, memory: impl FnOnce(usize) -> Vec<u8>) {
        let most = RUN_BYTES_MAX + usize::from(BATCH_EVENTS_MAX) * EVENT_BYTES;
        let room = events.saturating_mul(EVENT_BYTES).min(most);
        if room > 0 && self.run.bytes.capacity() == 0 {
            self.run.bytes = memory(room);
        }
    }

    /// Adds an event to the last message, or begins another one.
    pub(crate) fn add(&mut self, event: &PublishedEvent<'_>, id: u64) {
        let mut message = self.open.take().unwrap_or_else(|| self.begin());
        self.encoder.add(&mut self.run.bytes, &mut message.batch, event, id);
        self.run.events += 1;
        if message.batch.events() < BATCH_EVENTS_MAX {
            self.open = Some(message);
        } else {
            self.end(&message);
        }
    }

    /// Adds a message without events.
    pub(crate) fn add_empty(&mut self) {
        let message = self.open.take().unwrap_or_else(|| self.begin());
        self.end(&message);
    }

    /// Whether it is time to publish it: its last message is whole, and it is long.
    pub(crate) fn is_full(&self) -> bool {
        self.open.is_none() && self.run.bytes.len() >= RUN_BYTES_MAX
    }

    /// The run, if it has any message.
    pub(crate) fn finish(mut self) -> Option<MessageRun> {
        if let Some(message) = self.open.take() {
            self.end(&message);
        }
        let Self { mut run, .. } = self;
        if run.bytes.capacity() > 2 * run.bytes.len() {
            run.bytes.shrink_to_fit();
        }
        (!run.starts.is_empty()).then_some(run)
    }

    fn begin(&mut self) -> OpenMessage {
        let MessageRun { bytes, starts, first, .. } = &mut self.run;
        let number = *first + starts.len() as u64;
        starts.push(bytes.len() as u32);
        let body = begin_message(bytes, &[TOPIC, &number.to_be_bytes()]);
        OpenMessage { body, batch: self.encoder.begin(bytes) }
    }

    fn end(&mut self, message: &OpenMessage) {
        self.encoder.end(&mut self.run.bytes, &message.batch);
        end_message(&mut self.run.bytes, message.body);
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// A run of messages of so many bytes each, which say nothing.
    pub(crate) fn run(first: u64, messages: usize, bytes: usize) -> MessageRun {
        let starts = (0..messages).map(|at| (at * bytes) as u32).collect();
        let mut run = MessageRun { first, bytes: Vec::new(), starts, events: 0 };
        run.bytes.reserve_exact(messages * bytes);
        (0..messages).for_each(|at| run.bytes.extend(std::iter::repeat_n(at as u8, bytes)));
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::samples::settings;
    use crate::zmtp::frame::read_frame;
    use perigee_master::Medium;

    /// Topic, number and count of events of each message.
    fn read(mut bytes: &[u8]) -> Vec<(Vec<u8>, u64, usize)> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut messages = Vec::new();
        while !bytes.is_empty() {
            let mut next = || runtime.block_on(read_frame(&mut bytes)).unwrap();
            let [topic, number, batch] = [next(), next(), next()];
            assert!(topic.has_more && number.has_more && !batch.has_more);
            let number = u64::from_be_bytes(number.body.try_into().unwrap());
            type AnyBatch = (u64, Vec<serde::de::IgnoredAny>, u32);
            let (_, events, _): AnyBatch = rmp_serde::from_slice(&batch.body).unwrap();
            messages.push((topic.body, number, events.len()));
        }
        messages
    }

    #[test]
    fn messages_are_numbered_hold_at_most_a_batch_and_are_read_from_any_number() {
        // Short events, because frames of peers are read with a bound.
        let settings = crate::settings::EventSettings {
            has_legacy_fields: false,
            backend_id: String::new(),
            ..settings()
        };
        let encoder = BatchEncoder::new(&settings);
        let mut draft = RunDraft::new(&encoder, 5);
        draft.add_empty();
        draft.add(&PublishedEvent::Cleared(Medium::Memory), 0);
        draft.add(&PublishedEvent::Cleared(Medium::Disk), 1);
        assert!(!draft.is_full());
        let run = draft.finish().unwrap();
        let wanted = [(vec![], 5, 0), (vec![], 6, 2)];
        assert_eq!(read(run.from(0)), wanted);
        assert_eq!(read(run.from(6)), wanted[1..]);
        assert_eq!(read(run.from(7)), []);
        assert_eq!(run.each_from(0).collect::<Vec<_>>().concat(), run.from(0));
        assert_eq!(run.each_from(6).collect::<Vec<_>>(), [run.from(6)]);
        assert_eq!((run.messages(), run.events(), run.end()), (2, 2, 7));
    }

    #[test]
    fn a_message_ends_with_its_batch_and_a_run_when_it_is_long() {
        let encoder = BatchEncoder::new(&settings());
        let mut draft = RunDraft::new(&encoder, 0);
        let mut events = 0;
        while !draft.is_full() {
            draft.add(&PublishedEvent::Cleared(Medium::Memory), events);
            events += 1;
        }
        assert_eq!(events % u64::from(BATCH_EVENTS_MAX), 0);
        let run = draft.finish().unwrap();
        assert_eq!(run.messages() as u64, events / u64::from(BATCH_EVENTS_MAX));
        assert_eq!(run.events(), events);
        assert_eq!(RunDraft::new(&encoder, 0).finish(), None);
    }
}
