//! Calls about whole sets of keys: every shard walks over its keys.
//! Invariant: a walk is cut into bounded steps, and other calls get their turn between two steps.

use super::call::{CallCounts, CallRefusal, ReplyBuilder};
use super::codec::finish_count;
use crate::cluster::{ControlShard, Cursor};
use flatbuffers::Vector;
use perigee_master::{KeyShard, Pattern, Scan};
use perigee_metrics::RpcKind;
use perigee_schemas::message::decode;
use perigee_schemas::{Status, TenantId, master};
use perigee_shard::{Call, Environment};

pub(super) async fn remove_by_regex(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::RemoveByRegexRequest<'_>>(body)?;
    shard.wait_for_owners().await;
    let count = match pattern(request.pattern(), request.tenant()) {
        Ok(pattern) => remove(shard, pattern, request.force()).await,
        Err(status) => Err(status),
    };
    finish_count(builder, count);
    Ok(CallCounts::one(RpcKind::RemoveByRegex, count.is_ok()))
}

pub(super) async fn remove_all(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::RemoveAllRequest<'_>>(body)?;
    shard.wait_for_owners().await;
    let count = match TenantId::parse(request.tenant().unwrap_or_default()) {
        Ok(tenant) => remove(shard, Pattern::any().of(tenant), request.force()).await,
        Err(error) => Err(error.into()),
    };
    shard.wait_until_void().await;
    finish_count(builder, count);
    Ok(CallCounts::one(RpcKind::RemoveAll, count.is_ok()))
}

/// The keys of a tenant in which an expression is found; without a tenant those of the default one.
fn pattern(text: Option<&str>, tenant: Option<&str>) -> Result<Pattern, Status> {
    let tenant = TenantId::parse(tenant.unwrap_or_default())?;
    Ok(Pattern::compile(text.unwrap_or_default())?.of(tenant))
}

async fn remove(
    shard: &ControlShard<impl Environment>,
    pattern: Pattern,
    force: bool,
) -> Result<u64, Status> {
    let mut removed = 0;
    let step = move |keys: &mut KeyShard, now_ms, scan: &mut Scan| {
        keys.remove_step(now_ms, scan, &pattern, force)
    };
    let count = |step| {
        removed += step;
        true
    };
    shard.walk(step, count).await?;
    Ok(removed)
}

pub(super) async fn list_by_regex(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::ListByRegexRequest<'_>>(body)?;
    let limit = request.limit() as usize;
    let from = cursor(request.cursor())?;
    let found = match pattern(request.pattern(), request.tenant()) {
        Ok(pattern) => shard.list_page(&pattern, limit, from).await,
        Err(status) => Err(status),
    };
    let status = found.as_ref().err().map_or(0, |status| status.code());
    let page = found.unwrap_or_default();
    let keys = page.objects.iter().map(|object| &object.key);
    let offsets: Vec<_> = keys.map(|key| builder.create_string(key)).collect();
    let keys = Some(builder.create_vector(&offsets));
    let cursor = page.next.map(|next| builder.create_vector(&next.numbers()));
    let args = master::ListReplyArgs { status, keys, cursor };
    let root = master::ListReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::one(RpcKind::ListByRegex, status == 0))
}

/// Where a listing is to go on; the beginning if the request does not say.
fn cursor(numbers: Option<Vector<'_, u64>>) -> Result<Option<Cursor>, CallRefusal> {
    let numbers: Vec<u64> = numbers.iter().flat_map(Vector::iter).collect();
    match <[u64; 3]>::try_from(numbers) {
        Ok(numbers) => Ok(Some(Cursor::from_numbers(numbers))),
        Err(none) if none.is_empty() => Ok(None),
        Err(_) => Err(CallRefusal::new(Status::InvalidParams, "This is no cursor of a listing")),
    }
}

impl<E: Environment> ControlShard<E> {
    /// Walks over the keys of every shard, all shards at once. `take` gets the result of each step
    /// and ends the walk by returning false.
    ///
    /// # Errors
    /// A shard is gone.
    async fn walk<R: Send + 'static>(
        &self,
        step: impl Fn(&mut KeyShard, u64, &mut Scan) -> R + Clone + Send + 'static,
        mut take: impl FnMut(R) -> bool,
    ) -> Result<(), Status> {
        let mut walking: Vec<(usize, Option<Scan>)> =
            (0..self.members().len()).map(|owner| (owner, None)).collect();
        while !walking.is_empty() {
            // A step is posted to this shard too: calls that wait in its mailbox come first.
            let asked: Vec<_> = walking
                .iter()
                .map(|(owner, scan)| self.post_step(*owner, *scan, step.clone()))
                .collect();
            let mut ahead = Vec::with_capacity(walking.len());
            for ((owner, _), answer) in walking.into_iter().zip(asked) {
                let (scan, result) = answer.await.flatten().ok_or(Status::InternalError)?;
                if !take(result) {
                    return Ok(());
                }
                if !scan.has_ended() {
                    ahead.push((owner, Some(scan)));
                }
            }
            walking = ahead;
        }
        Ok(())
    }

    fn post_step<R: Send + 'static>(
        &self,
        owner: usize,
        scan: Option<Scan>,
        step: impl Fn(&mut KeyShard, u64, &mut Scan) -> R + Send + 'static,
    ) -> Call<E, Option<(Scan, R)>> {
        let member = &self.members()[owner];
        let name = member.name;
        self.environment.call_later(&member.mailbox, move |theirs, reply| {
            if let Some(shard) = theirs.local(name) {
                let mut keys = shard.keys.borrow_mut();
                let mut scan = scan.unwrap_or_else(|| keys.scan());
                let result = step(&mut keys, shard.now_ms(), &mut scan);
                drop(keys);
                shard.reply_when_sent(reply, (scan, result));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::config::{MasterConfig, MasterStart};
    use perigee_flags::ProcessEnvironment as Variables;
    use perigee_master::limits::SCAN_STEP_OBJECTS;
    use perigee_master::{Effort, PlacementColumns, PutConfig, PutStart, SegmentSpec, StartedPuts};
    use perigee_schemas::limits::LISTING_PAGE_BYTES;
    use perigee_shard::monotonic_ms;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, TryRecvError, channel};
    use std::time::{Duration, Instant};

    const KEYS: u64 = 50 * SCAN_STEP_OBJECTS as u64;
    const LONG: Duration = Duration::from_secs(120);

    fn cluster() -> Cluster {
        let arguments = ["--rpc_shards=1".to_owned()];
        let loaded = MasterConfig::load(&arguments, &Variables::of(&[]));
        let MasterStart::Serve(config) = loaded.expect("the flags are known") else {
            unreachable!("no text was asked for")
        };
        let address = "127.0.0.1:0".parse().expect("an address");
        Cluster::start(&config, address, None).expect("a port is free")
    }

    fn fill(keys: &mut KeyShard) {
        let names: Vec<String> = (0..KEYS).map(|key| format!("key-{key}")).collect();
        let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let mut placed = PlacementColumns::default();
        let batch = PutStart {
            client: 1,
            keys: &names,
            payload_bytes: &vec![100; names.len()],
            positions: &[],
            batch_keys: 0,
            groups: &[],
            config: &PutConfig::default(),
            upsert: false,
            effort: Effort::Last,
        };
        keys.put_start(monotonic_ms(), &batch, &mut placed);
        let generations: Vec<u64> = placed.locations.iter().map(|at| at.generation).collect();
        let puts = StartedPuts { client: 1, keys: &names, generations: &generations, parts: &[] };
        let checksums = vec![0; names.len()];
        keys.put_end(monotonic_ms(), &puts, &checksums, &mut Vec::new());
        assert_eq!(keys.gauges().keys, KEYS);
    }

    fn mount(keys: &mut KeyShard) {
        let spec = SegmentSpec {
            id: 1,
            name: "host:1".to_owned(),
            client: 1,
            bytes: 1 << 30,
            base: 0,
            endpoint: String::new(),
            host_id: String::new(),
            rendezvous: String::new(),
            protocol: "tcp".to_owned(),
            peer: None,
            kind: perigee_master::SegmentKind::Memory,
            announces: perigee_master::Announces::Nothing,
            keeps_parts: true,
            keeps_replica_counts: true,
        };
        let spec = Arc::new(spec);
        let event = perigee_master::SegmentEvent::Mounted { index: 0, spec };
        keys.apply(monotonic_ms(), &event);
    }

    /// Starts the removal of all keys on the shard; its answer comes later.
    fn start_removal(cluster: &Cluster) -> Receiver<Result<u64, Status>> {
        let (send, receive) = channel();
        cluster.ask(0, move |shard| {
            let (environment, name) = (shard.environment.clone(), shard.members()[0].name);
            let owner = environment.local(name).expect("the shard is there");
            environment.spawn(async move {
                let _ = send.send(remove(&owner, Pattern::any(), true).await);
            });
        });
        receive
    }

    #[test]
    fn other_calls_are_answered_while_all_keys_are_being_removed() {
        let cluster = cluster();
        cluster.ask(0, |shard| mount(&mut shard.keys.borrow_mut()));
        let deadline = Instant::now() + LONG;
        let mut seen_between = false;
        while !seen_between {
            assert!(Instant::now() < deadline, "no call came between two steps");
            cluster.ask(0, |shard| fill(&mut shard.keys.borrow_mut()));
            let removed = start_removal(&cluster);
            let removed = loop {
                match removed.try_recv() {
                    Ok(removed) => break removed,
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => unreachable!("the walk ends"),
                }
                let left = cluster.ask(0, |shard| shard.keys.borrow().gauges().keys);
                seen_between |= left.is_some_and(|left| left > 0 && left < KEYS);
            };
            assert_eq!(removed, Ok(KEYS));
        }
        cluster.stop();
    }

    /// All pages of a listing.
    fn pages(cluster: &Cluster, limit: usize) -> Vec<Vec<String>> {
        let (mut pages, mut from) = (Vec::new(), None);
        loop {
            let page = cluster.run_first(move |first| async move {
                first.list_page(&Pattern::any(), limit, from).await
            });
            let page = page.expect("the shard answers").expect("a turn is free");
            pages.push(page.objects.into_iter().map(|object| object.key).collect());
            from = page.next;
            if from.is_none() {
                return pages;
            }
        }
    }

    #[test]
    fn a_listing_comes_in_bounded_pages_and_each_key_once() {
        let cluster = cluster();
        cluster.ask(0, |shard| {
            mount(&mut shard.keys.borrow_mut());
            fill(&mut shard.keys.borrow_mut());
        });
        for limit in [1000, usize::MAX] {
            let pages = pages(&cluster, limit);
            let largest = pages.iter().map(|page| page.iter().map(String::len).sum::<usize>());
            // The last key of a page may be the one that ends it.
            assert!(largest.max() <= Some(LISTING_PAGE_BYTES + 16));
            assert!(pages.iter().all(|page| page.len() <= limit));
            assert!(pages.len() > 1);
            let mut keys: Vec<String> = pages.into_iter().flatten().collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len() as u64, KEYS, "limit {limit}");
        }
        cluster.stop();
    }

    #[test]
    fn cursors_of_strangers_end_too() {
        let cluster = cluster();
        for numbers in [[0, 0, u64::MAX], [u64::MAX; 3], [0, 9, 3], [1, 0, 0]] {
            let from = Some(Cursor::from_numbers(numbers));
            let page = cluster.run_first(move |first| async move {
                first.list_page(&Pattern::any(), 10, from).await
            });
            let page = page.expect("the shard answers").expect("a turn is free");
            assert!(page.objects.is_empty() && page.next.is_none());
        }
        cluster.stop();
    }
}
