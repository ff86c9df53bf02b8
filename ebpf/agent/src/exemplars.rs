//! Kept requests that stand for values of the agent's histograms. Invariant: no more series than
//! the agent has flows, each with a request per bucket.

use crate::limits::FLOWS_MAX;
use crate::snapshot::BatchSeries;
use crate::traces::SpanEntry;
use perigee_metrics::catalogue::buckets::{LOG2_DURATIONS, QUARTER_DURATIONS};
use perigee_metrics::{BucketExemplars, Exemplar};
use std::collections::BTreeMap;

/// The last request of each bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exemplars {
    /// By NIC, route and direction.
    flows: BTreeMap<[String; 3], BucketExemplars>,
    /// By NIC, peer, tenant, route and direction.
    batches: BTreeMap<[String; 5], BucketExemplars>,
}

impl Exemplars {
    /// Takes what spans show of flows. An exchange that stands for several, and one that failed, is
    /// none of those that were counted.
    pub(crate) fn add(&mut self, spans: &[SpanEntry]) {
        for span in spans.iter().filter(|span| span.parts == 1 && span.status == 0) {
            let direction = match (span.kind.as_str(), span.direction.as_str()) {
                ("transfer", direction) => direction,
                // What a peer reads from a node leaves it.
                ("served", "read") => "write",
                ("served", "write") => "read",
                _ => continue,
            };
            let Ok(trace) = u128::from_str_radix(&span.trace, 16) else {
                continue;
            };
            let (device, route) = (span.device.clone(), span.route.clone());
            let seen_ms = span.began_us.saturating_add(span.took_ns / 1000) / 1000;
            let mut shown = Exemplar { trace, value: span.took_ns, seen_ms };
            if span.kind == "transfer" {
                // A batch of the page: its wait counts, too, and no batch names a tenant.
                let peer = BatchSeries::peer_of(&span.peer).to_owned();
                let labels =
                    [device.clone(), peer, String::new(), route.clone(), direction.to_owned()];
                shown.value = span.took_ns.saturating_add(span.queue_ns);
                put(&mut self.batches, labels, LOG2_DURATIONS.place(shown.value), shown);
                shown.value = span.took_ns;
            }
            let labels = [device, route, direction.to_owned()];
            put(&mut self.flows, labels, QUARTER_DURATIONS.place(shown.value), shown);
        }
    }

    /// Those of a flow.
    pub(crate) fn of_flow(&self, labels: [&str; 3]) -> BucketExemplars {
        let found = self.flows.get(&labels.map(str::to_owned));
        found.cloned().unwrap_or_default()
    }

    /// Those of the batches between a NIC and a peer.
    pub(crate) fn of_batches(&self, labels: [&str; 5]) -> BucketExemplars {
        let found = self.batches.get(&labels.map(str::to_owned));
        found.cloned().unwrap_or_default()
    }
}

fn put<const N: usize>(
    all: &mut BTreeMap<[String; N], BucketExemplars>,
    labels: [String; N],
    bucket: usize,
    shown: Exemplar,
) {
    if all.len() < FLOWS_MAX || all.contains_key(&labels) {
        all.entry(labels).or_default().put(bucket, shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(kind: &str, trace: u64) -> SpanEntry {
        SpanEntry {
            kind: kind.to_owned(),
            trace: format!("{trace:032x}"),
            device: "eth0".to_owned(),
            route: "tcp".to_owned(),
            direction: "read".to_owned(),
            peer: "10.0.0.9:5001".to_owned(),
            parts: 1,
            took_ns: 1100,
            queue_ns: 1900,
            began_us: 7_000_000,
            ..SpanEntry::default()
        }
    }

    #[test]
    fn exchanges_stand_in_the_bucket_of_their_time_on_the_wire() {
        let several = SpanEntry { parts: 2, ..span("transfer", 3) };
        let failed = SpanEntry { status: -1, ..span("transfer", 4) };
        let mut exemplars = Exemplars::default();
        exemplars.add(&[span("transfer", 1), span("served", 2), several, failed, span("call", 5)]);
        let read = exemplars.of_flow(["eth0", "tcp", "read"]);
        let place = QUARTER_DURATIONS.place(1100);
        let wanted = Exemplar { trace: 1, value: 1100, seen_ms: 7000 };
        assert_eq!(read.of(place), Some(wanted));
        let written = exemplars.of_flow(["eth0", "tcp", "write"]);
        assert_eq!(written.of(place).map(|it| it.trace), Some(2));
        assert_eq!(exemplars.flows.len(), 2);
    }

    #[test]
    fn a_batch_stands_under_its_peer_with_its_wait_and_what_a_peer_asked_for_does_not() {
        let mut exemplars = Exemplars::default();
        exemplars.add(&[span("transfer", 1), span("served", 2)]);
        let read = exemplars.of_batches(["eth0", "10.0.0.9", "", "tcp", "read"]);
        let shown = read.of(LOG2_DURATIONS.place(3000));
        assert_eq!(shown.map(|it| (it.trace, it.value)), Some((1, 3000)));
        assert_eq!(exemplars.batches.len(), 1);
    }
}
