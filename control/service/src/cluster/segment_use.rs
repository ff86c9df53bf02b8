//! Listings of segments with how full they are, page by page.
//! Invariant: a page looks at [`SEGMENTS_PER_PAGE`] segments at most, and other calls get their
//! turn between two pages. Callers bound how many pages are made at a time.

use super::control_shard::ControlShard;
use perigee_master::{Registry, SegmentGauges, SegmentKind, SegmentSpec};
use perigee_schemas::Status;
use perigee_schemas::limits::SEGMENTS_PER_PAGE;
use perigee_shard::Environment;
use std::collections::HashSet;
use std::sync::Arc;

/// One mounted segment and its use.
#[derive(Clone, Debug)]
pub(crate) struct SegmentUsage {
    pub(crate) spec: Arc<SegmentSpec>,
    /// Mooncake's segment status.
    pub(crate) state: u8,
    pub(crate) allocated_bytes: u64,
    /// Bytes that can be allocated, with those that are.
    pub(crate) usable_bytes: u64,
    /// The largest object that fits without eviction.
    pub(crate) largest_free_bytes: u64,
}

impl SegmentUsage {
    fn unused(spec: Arc<SegmentSpec>, state: u8) -> Self {
        Self { spec, state, allocated_bytes: 0, usable_bytes: 0, largest_free_bytes: 0 }
    }

    /// A disk: its owner decides what it holds.
    fn of_disk(spec: Arc<SegmentSpec>, state: u8) -> Self {
        Self { usable_bytes: spec.bytes, ..Self::unused(spec, state) }
    }

    fn add(&mut self, part: SegmentGauges) {
        self.allocated_bytes += part.allocated_bytes;
        self.usable_bytes += part.capacity_bytes;
        self.largest_free_bytes = self.largest_free_bytes.max(part.largest_free_bytes);
    }
}

/// Names of segments that are asked for; without any, all are.
pub(crate) type SegmentNames = Arc<HashSet<String>>;

/// Some segments of a listing, which goes on at the number `next`.
#[derive(Debug, Default)]
pub(crate) struct SegmentPage {
    pub(crate) segments: Vec<SegmentUsage>,
    pub(crate) next: Option<u32>,
}

/// Segments of the registry by number.
#[derive(Default)]
struct Numbered {
    segments: Vec<(u32, SegmentUsage)>,
    next: Option<u32>,
}

impl<E: Environment> ControlShard<E> {
    /// The page of a listing of segments of one kind that begins at a segment's number.
    ///
    /// # Errors
    /// `InternalError`: a shard is gone.
    pub(crate) async fn segment_page(
        &self,
        names: &SegmentNames,
        from: u32,
        kind: SegmentKind,
    ) -> Result<SegmentPage, Status> {
        let names = names.clone();
        // It is posted to this shard too: calls that wait in its mailbox come first.
        let listed = self.on(0, move |first| first.numbered(&names, from, kind)).await;
        let listed = listed.flatten().flatten().ok_or(Status::InternalError)?;
        let Numbered { mut segments, next } = listed;
        let numbers: Arc<[u32]> = segments.iter().map(|(number, _)| *number).collect();
        let shares = (0..self.members().len()).map(|owner| {
            let numbers = numbers.clone();
            self.on(owner, move |shard| shard.gauges_of(&numbers))
        });
        let shares: Vec<_> = shares.collect();
        for share in shares {
            let share = share.await.flatten().ok_or(Status::InternalError)?;
            for ((_, segment), part) in segments.iter_mut().zip(share) {
                part.into_iter().for_each(|part| segment.add(part));
            }
        }
        let segments = segments.into_iter().map(|(_, segment)| segment).collect();
        Ok(SegmentPage { segments, next })
    }

    /// Segments of the registry from a number on; nothing on shards that keep none.
    fn numbered(&self, names: &SegmentNames, from: u32, kind: SegmentKind) -> Option<Numbered> {
        let registry: &Registry = &self.registry.as_ref()?.borrow();
        let mut views = registry.segments_from(from);
        let mut page = Numbered::default();
        for view in views.by_ref().take(SEGMENTS_PER_PAGE) {
            let is_wanted = names.is_empty() || names.contains(&view.spec.name);
            if is_wanted && view.spec.kind == kind {
                let (spec, state) = (view.spec.clone(), view.state as u8);
                let unused = match kind {
                    SegmentKind::Memory => SegmentUsage::unused(spec, state),
                    SegmentKind::Disk => SegmentUsage::of_disk(spec, state),
                };
                page.segments.push((view.index, unused));
            }
        }
        page.next = views.next().map(|view| view.index);
        debug_assert!(page.next.is_none_or(|next| next > from), "a listing comes to its end");
        Some(page)
    }

    /// How this shard's part of each segment stands, if it is readable.
    fn gauges_of(&self, segments: &[u32]) -> Vec<Option<SegmentGauges>> {
        let keys = self.keys.borrow();
        let gauges = |segment: &u32| keys.segment_gauge(*segment).or(keys.disk_gauge(*segment));
        segments.iter().map(gauges).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::config::{MasterConfig, MasterStart};
    use perigee_flags::ProcessEnvironment as Variables;

    use crate::cluster::MountRequest;

    const SEGMENTS: u32 = 2 * SEGMENTS_PER_PAGE as u32 + 1;

    fn cluster_with_segments() -> Cluster {
        let arguments = ["--rpc_shards=2", "--verify_segments=false"].map(str::to_owned);
        let loaded = MasterConfig::load(&arguments, &Variables::of(&[]));
        let MasterStart::Serve(config) = loaded.expect("the flags are known") else {
            unreachable!("no text was asked for")
        };
        let address = "127.0.0.1:0".parse().expect("an address");
        let cluster = Cluster::start(&config, address, None).expect("a port is free");
        for number in 0..SEGMENTS {
            let spec = SegmentSpec {
                id: u128::from(number) + 1,
                name: format!("host-{number}:1"),
                client: u128::from(number % 100) + 1,
                bytes: 1 << 20,
                base: 0,
                endpoint: format!("host-{number}:2"),
                host_id: String::new(),
                rendezvous: String::new(),
                protocol: "tcp".to_owned(),
                peer: None,
                kind: SegmentKind::Memory,
                announces: perigee_master::Announces::Nothing,
                keeps_parts: true,
                keeps_replica_counts: true,
            };
            let client = perigee_schemas::Identity(spec.client);
            let request =
                MountRequest { segments: vec![spec], is_remount: false, number: 0, generation: 0 };
            let mounted = cluster
                .run_first(move |first| async move { first.mount(client, None, request).await });
            assert_eq!(mounted, Some(vec![0]), "segment {number}");
        }
        cluster
    }

    /// The names on each page.
    fn pages(cluster: &Cluster, names: &[&str]) -> Vec<Vec<String>> {
        let names: SegmentNames = Arc::new(names.iter().map(|&name| name.to_owned()).collect());
        let (mut pages, mut from) = (Vec::new(), Some(0));
        while let Some(number) = from {
            let names = names.clone();
            let page = cluster.run_first(move |first| async move {
                first.segment_page(&names, number, SegmentKind::Memory).await
            });
            let page = page.expect("the shard answers").expect("a turn is free");
            pages.push(page.segments.iter().map(|used| used.spec.name.clone()).collect());
            assert!(page.next.is_none_or(|next| next > number));
            from = page.next;
        }
        pages
    }

    #[test]
    fn a_listing_of_segments_comes_in_bounded_pages_and_each_segment_once() {
        let cluster = cluster_with_segments();
        let all = pages(&cluster, &[]);
        let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(lengths, [SEGMENTS_PER_PAGE, SEGMENTS_PER_PAGE, 1]);
        let wanted = (0..SEGMENTS).map(|number| format!("host-{number}:1"));
        assert!(all.concat().into_iter().eq(wanted));
        assert_eq!(pages(&cluster, &["host-9:1", "no-host:1", "host-512:1"]).concat().len(), 2);
        cluster.stop();
    }
}
