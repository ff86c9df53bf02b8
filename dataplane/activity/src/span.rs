//! A span: what one process did for a request, and how long that took. The layout is an interface
//! between processes of different builds.

use crate::layout::text;
use crate::operation::Operation;
use crate::span_ring::SPAN_WORDS;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::{Direction, Route};

const NUMBERS: usize = 14;
const WHAT_BYTES: usize = 24;
const WHO_BYTES: usize = 112;

const _: () = assert!(SPAN_WORDS == NUMBERS + (WHAT_BYTES + WHO_BYTES) / 8);

/// What a span tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SpanKind {
    /// A call of the program, from its begin to its end.
    Call = 1,
    /// Below a call: a call to the master.
    Master = 2,
    /// Below a call: bytes that went between this process and a peer.
    Transfer = 3,
    /// At a node: an exchange that it answered.
    Served = 4,
    /// At a master: a call that it answered.
    Answered = 5,
}

impl SpanKind {
    const ALL: [Self; 5] = [Self::Call, Self::Master, Self::Transfer, Self::Served, Self::Answered];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Master => "master",
            Self::Transfer => "transfer",
            Self::Served => "served",
            Self::Answered => "answered",
        }
    }
}

/// What one process did for a request. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Of the whole request.
    pub trace: u128,
    /// Of the call that it is, or belongs to.
    pub call: u64,
    /// Of a call: the span of the program that it is below; 0 for none.
    pub parent: u64,
    /// Place among the spans of the call; the call itself is 0.
    pub index: u16,
    /// What it tells of.
    pub kind: SpanKind,
    /// Number of the operation of a call, of the message of a call to the master.
    pub detail: u16,
    /// Keys of a call, pieces of a transfer.
    pub count: u32,
    /// Spans below a call, shown or not; exchanges of a transfer.
    pub parts: u32,
    /// Since 1970; in a span that is being gathered, since the begin of the call.
    pub began_ns: u64,
    /// From its begin to its end.
    pub took_ns: u64,
    /// Before its first byte went, and while its thread had no core to take the answer; not within
    /// `took_ns`. Of several exchanges, as what follows, the sum.
    pub queue_ns: u64,
    /// The server was ready but had no core, by its own clock, as what follows.
    pub waited_ns: u64,
    /// The node judged, summed and staged bytes; the master did all that it had to.
    pub served_ns: u64,
    /// The node read from disks.
    pub disk_ns: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Code, 0 when all went well.
    pub status: i32,
    /// As what its program counts a call to the master, as [`crate::counting_as`] says it; 0 for
    /// nothing, and for several that stand for each other. It stays in the process.
    pub counted_as: u16,
    route: u8,
    direction: u8,
    what: [u8; WHAT_BYTES],
    who: [u8; WHO_BYTES],
}

impl Span {
    /// A span that tells nothing yet.
    pub(crate) const BLANK: Self = Self {
        trace: 0,
        call: 0,
        parent: 0,
        index: 0,
        kind: SpanKind::Call,
        detail: 0,
        count: 0,
        parts: 0,
        began_ns: 0,
        took_ns: 0,
        queue_ns: 0,
        waited_ns: 0,
        served_ns: 0,
        disk_ns: 0,
        bytes: 0,
        status: 0,
        counted_as: 0,
        route: u8::MAX,
        direction: u8::MAX,
        what: [0; WHAT_BYTES],
        who: [0; WHO_BYTES],
    };

    /// A span without numbers. `what` is the NIC of a transfer; `who` is the first key of a call,
    /// the other end of all else. Names that are too long are cut.
    pub fn new(kind: SpanKind, what: &str, who: &str) -> Self {
        let mut span = Self::BLANK;
        span.begin(kind, what, who);
        span
    }

    /// As [`Span::new`], in the place of another one.
    pub(crate) fn begin(&mut self, kind: SpanKind, what: &str, who: &str) {
        *self = Self { kind, ..Self::BLANK };
        cut(what, &mut self.what);
        cut(who, &mut self.who);
    }

    /// Adds the way that bytes took.
    pub fn go_over(&mut self, route: Route, direction: Direction) {
        (self.route, self.direction) = (route as u8, direction as u8);
    }

    /// The way bytes took; `None` where none went, or for one that this build does not know.
    pub fn route(&self) -> Option<Route> {
        Route::from_number(self.route)
    }

    /// Which way they went.
    pub fn direction(&self) -> Option<Direction> {
        Direction::from_number(self.direction)
    }

    /// What was done: the operation of a call, the message of a call to the master, which way bytes
    /// went.
    pub fn name(&self) -> String {
        let name = match self.kind {
            SpanKind::Call => {
                let number = u8::try_from(self.detail).ok();
                number.and_then(Operation::from_number).map(|it| it.label().to_owned())
            }
            SpanKind::Master | SpanKind::Answered => {
                MessageKind::from_wire(self.detail).map(|kind| format!("{kind:?}"))
            }
            SpanKind::Transfer | SpanKind::Served => {
                self.direction().map(|direction| direction.label().to_owned())
            }
        };
        name.unwrap_or_else(|| "unknown".to_owned())
    }

    /// NIC of a transfer.
    pub fn what(&self) -> String {
        text(&self.what)
    }

    /// First key of a call; the other end of all else.
    pub fn who(&self) -> String {
        text(&self.who)
    }

    /// Whether both are exchanges over the same link.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let way = |span: &Self| (span.kind, span.detail, span.route, span.direction);
        way(self) == way(other) && self.what == other.what && self.who == other.who
    }

    /// Adds another one of the same link.
    pub(crate) fn absorb(&mut self, other: &Self) {
        let end = |span: &Self| span.began_ns.saturating_add(span.took_ns);
        let last = end(self).max(end(other));
        self.began_ns = self.began_ns.min(other.began_ns);
        self.took_ns = last - self.began_ns;
        for (sum, more) in [
            (&mut self.queue_ns, other.queue_ns),
            (&mut self.waited_ns, other.waited_ns),
            (&mut self.served_ns, other.served_ns),
            (&mut self.disk_ns, other.disk_ns),
            (&mut self.bytes, other.bytes),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.counted_as = 0;
        self.count = self.count.saturating_add(other.count);
        self.parts = self.parts.saturating_add(other.parts);
        if self.status == 0 {
            self.status = other.status;
        }
    }

    pub(crate) fn encode(&self) -> [u64; SPAN_WORDS] {
        let mut words = [0; SPAN_WORDS];
        let place = u64::from(self.index) | (self.kind as u64) << 16 | u64::from(self.count) << 32;
        let outcome = u64::from(self.status.cast_unsigned())
            | u64::from(self.route) << 32
            | u64::from(self.direction) << 40
            | u64::from(self.detail) << 48;
        words[..NUMBERS].copy_from_slice(&[
            (self.trace >> 64) as u64,
            self.trace as u64,
            self.call,
            self.parent,
            place,
            self.began_ns,
            self.took_ns,
            self.queue_ns,
            self.waited_ns,
            self.served_ns,
            self.disk_ns,
            self.bytes,
            outcome,
            u64::from(self.parts),
        ]);
        let names = self.what.as_chunks().0.iter().chain(self.who.as_chunks().0);
        for (word, chunk) in words[NUMBERS..].iter_mut().zip(names) {
            *word = u64::from_le_bytes(*chunk);
        }
        words
    }

    /// Reads what another process wrote; `None` for a kind that this build does not know.
    pub(crate) fn decode(words: &[u64; SPAN_WORDS]) -> Option<Self> {
        let (place, outcome) = (words[4], words[12]);
        let (mut what, mut who) = ([0; WHAT_BYTES], [0; WHO_BYTES]);
        let names = what.as_chunks_mut().0.iter_mut().chain(who.as_chunks_mut().0);
        for (chunk, word) in names.zip(&words[NUMBERS..]) {
            *chunk = word.to_le_bytes();
        }
        Some(Self {
            trace: u128::from(words[0]) << 64 | u128::from(words[1]),
            call: words[2],
            parent: words[3],
            index: place as u16,
            kind: SpanKind::from_number((place >> 16) as u8)?,
            count: (place >> 32) as u32,
            began_ns: words[5],
            took_ns: words[6],
            queue_ns: words[7],
            waited_ns: words[8],
            served_ns: words[9],
            disk_ns: words[10],
            bytes: words[11],
            status: (outcome as u32).cast_signed(),
            counted_as: 0,
            route: (outcome >> 32) as u8,
            direction: (outcome >> 40) as u8,
            detail: (outcome >> 48) as u16,
            parts: words[13] as u32,
            what,
            who,
        })
    }
}

/// Puts a text at the front of zeroes, cut at a whole character.
fn cut(text: &str, place: &mut [u8]) {
    let length = text.floor_char_boundary(place.len());
    place[..length].copy_from_slice(&text.as_bytes()[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_survives_the_page() {
        let mut span = Span::new(SpanKind::Transfer, "mlx5_0", "10.0.0.9");
        span.go_over(Route::Tcp, Direction::Read);
        (span.trace, span.call, span.parent, span.index) = (5 << 70 | 3, 7, 9, 11);
        (span.count, span.parts, span.status, span.detail) = (13, 2, -711, 3);
        (span.began_ns, span.took_ns, span.queue_ns) = (1 << 60, 900, 5);
        (span.waited_ns, span.served_ns, span.disk_ns, span.bytes) = (1, 2, 3, 4096);
        let read = Span::decode(&span.encode()).unwrap();
        assert_eq!(read, span);
        assert_eq!((read.what().as_str(), read.who().as_str()), ("mlx5_0", "10.0.0.9"));
        assert_eq!((read.route(), read.name().as_str()), (Some(Route::Tcp), "read"));
    }

    #[test]
    fn long_keys_are_cut_at_a_whole_character() {
        let span = Span::new(SpanKind::Call, "", &"ä".repeat(100));
        assert_eq!(span.who(), "ä".repeat(WHO_BYTES / 2));
        let odd = Span::new(SpanKind::Call, "", &format!("k{}", "ä".repeat(100)));
        assert_eq!(odd.who().len(), WHO_BYTES - 1);
    }

    #[test]
    fn names_say_what_was_done() {
        let mut call = Span::new(SpanKind::Call, "", "k");
        call.detail = Operation::BatchPut as u16;
        assert_eq!(call.name(), "batch_put");
        let mut master = Span::new(SpanKind::Master, "", "m:1");
        master.detail = MessageKind::GetReplicas as u16;
        assert_eq!(master.name(), "GetReplicas");
        master.detail = u16::MAX;
        assert_eq!(master.name(), "unknown");
    }

    #[test]
    fn what_another_process_wrote_is_made_harmless() {
        assert_eq!(Span::decode(&[u64::MAX; SPAN_WORDS]), None);
        let mut words = [u64::MAX; SPAN_WORDS];
        words[4] = (SpanKind::Transfer as u64) << 16;
        let span = Span::decode(&words).unwrap();
        assert_eq!((span.route(), span.name().as_str()), (None, "unknown"));
        assert!(span.who().chars().all(|letter| letter == '\u{fffd}'));
    }
}
