//! A span as it is served: plain data, with the process and the host it is from.

use perigee_activity::{Direction, Route, Span, SpanKind};
use serde::{Deserialize, Serialize};

/// What one process did for a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpanEntry {
    /// Of the whole request: 32 digits.
    pub trace: String,
    /// Its own name: 16 digits.
    pub span: String,
    /// Name of the span that it is below; empty for none.
    pub parent: String,
    /// Name of the call that it is, or belongs to.
    pub call: String,
    /// `call`; below it `master` and `transfer`; elsewhere `served` (by a node) and `answered` (by
    /// a master).
    pub kind: String,
    /// What was done: `get`, `GetReplicas`, `read`.
    pub name: String,
    /// Name of the host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// File name of the program, as its activity page says.
    pub program: String,
    /// NIC; empty for copies in memory.
    pub device: String,
    /// The other end.
    pub peer: String,
    /// First key of a call, cut where it is long.
    pub key: String,
    /// Route of bytes; empty where none went.
    pub route: String,
    /// `read` or `write`; empty where no bytes went.
    pub direction: String,
    /// Keys of a call, pieces of a transfer.
    pub count: u32,
    /// Spans below a call, whether they are shown or not; exchanges of a transfer.
    pub parts: u32,
    /// Payload bytes.
    pub bytes: u64,
    /// Status code; 0 when all went well.
    pub status: i32,
    /// Microseconds since 1970.
    pub began_us: u64,
    /// From begin to end.
    pub took_ns: u64,
    /// Before its first byte went; of several exchanges, as what follows, the sum.
    pub queue_ns: u64,
    /// The server was ready but had no core, by its own clock, as what follows.
    pub waited_ns: u64,
    /// The server worked: a node judged, summed and staged bytes, a master did all it had to.
    pub served_ns: u64,
    /// The server read from disks.
    pub disk_ns: u64,
}

/// Whose span it is.
pub(crate) struct SpanOrigin<'a> {
    pub(crate) host: &'a str,
    pub(crate) pid: u32,
    pub(crate) program: &'a str,
}

/// Longest key that a span holds whole, in bytes.
const KEY_BYTES: usize = 112;

impl SpanEntry {
    /// A span of a process; `device` is what this host calls its NIC.
    pub(crate) fn of(span: &Span, device: String, origin: &SpanOrigin<'_>) -> Self {
        let is_call = span.kind == SpanKind::Call;
        let call = format!("{:016x}", span.call);
        let own = match is_call {
            true => call.clone(),
            false => format!("{:016x}", below(span, origin)),
        };
        let parent = match (is_call, span.parent) {
            (false, _) => call.clone(),
            (true, 0) => String::new(),
            (true, parent) => format!("{parent:016x}"),
        };
        let (key, peer) =
            if is_call { (span.who(), String::new()) } else { (String::new(), span.who()) };
        Self {
            trace: format!("{:032x}", span.trace),
            span: own,
            parent,
            call,
            kind: span.kind.label().to_owned(),
            name: span.name(),
            host: origin.host.to_owned(),
            pid: origin.pid,
            program: origin.program.to_owned(),
            device,
            peer,
            key,
            route: span.route().map_or("", Route::label).to_owned(),
            direction: span.direction().map_or("", Direction::label).to_owned(),
            count: span.count,
            parts: span.parts,
            bytes: span.bytes,
            status: span.status,
            began_us: span.began_ns / 1000,
            took_ns: span.took_ns,
            queue_ns: span.queue_ns,
            waited_ns: span.waited_ns,
            served_ns: span.served_ns,
            disk_ns: span.disk_ns,
        }
    }

    /// Whether it is a call whose first key is this one.
    pub(crate) fn is_about(&self, key: &str) -> bool {
        let is_cut = key.len() > KEY_BYTES && !self.key.is_empty();
        self.key == key || (is_cut && self.key == key[..key.floor_char_boundary(KEY_BYTES)])
    }

    /// What the answers of servers leave of it: the network's part, and that of peers which do not
    /// say what they did.
    pub fn wire_ns(&self) -> u64 {
        [self.waited_ns, self.served_ns, self.disk_ns]
            .into_iter()
            .fold(self.took_ns, u64::saturating_sub)
    }
}

/// A name for a span below a call, the same whenever it is asked for.
fn below(span: &Span, origin: &SpanOrigin<'_>) -> u64 {
    let place = u64::from(span.index) << 32 | u64::from(origin.pid);
    let elsewhere = match span.index {
        0 => span.began_ns,
        _ => 0,
    };
    let words = [span.call, place, elsewhere];
    let mixed = words.into_iter().fold(0u64, |sum, word| {
        let sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^ sum >> 29
    });
    mixed.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> SpanOrigin<'static> {
        SpanOrigin { host: "h", pid: 7, program: "python" }
    }

    #[test]
    fn a_call_is_below_the_programs_span_and_all_else_below_the_call() {
        let mut call = Span::new(SpanKind::Call, "", "k");
        (call.trace, call.call, call.parent) = (5, 6, 9);
        let mut first = Span::new(SpanKind::Transfer, "eth0", "10.0.0.9");
        (first.trace, first.call, first.index) = (5, 6, 1);
        (first.took_ns, first.waited_ns, first.served_ns) = (100, 10, 20);
        let mut second = first;
        second.index = 2;
        let [call, first, second] =
            [call, first, second].map(|span| SpanEntry::of(&span, String::new(), &origin()));
        assert_eq!(
            (call.span.as_str(), call.parent.as_str()),
            ("0000000000000006", "0000000000000009")
        );
        assert_eq!((&first.parent, &first.call), (&call.span, &call.span));
        assert!(first.span != second.span && first.span != call.span);
        assert_eq!(
            (first.wire_ns(), call.key.as_str(), first.peer.as_str()),
            (70, "k", "10.0.0.9")
        );
    }

    #[test]
    fn a_long_key_is_found_by_its_beginning() {
        let key = "k".repeat(300);
        let call = Span::new(SpanKind::Call, "", &key);
        let entry = SpanEntry::of(&call, String::new(), &origin());
        assert!(entry.is_about(&key) && !entry.is_about("k"));
        assert!(!SpanEntry::default().is_about(&key));
    }
}
