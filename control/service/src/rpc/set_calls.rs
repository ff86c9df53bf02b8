//! Calls about whole sets of keys: every shard walks over its keys.
//! Invariant: a walk is cut into bounded steps, and other calls get their turn between two steps.

use super::codec::finish_count;
use super::dispatch::{Builder, Refusal, Tally};
use crate::cluster::ControlShard;
use perigee_master::{Pattern, Scan, Shard as KeyShard};
use perigee_metrics::RpcKind;
use perigee_schemas::message::decode;
use perigee_schemas::{Status, master};
use perigee_shard::monotonic_ms;

pub(super) async fn remove_by_regex(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::RemoveByRegexRequest<'_>>(body)?;
    let count = match Pattern::compile(request.pattern().unwrap_or_default()) {
        Ok(pattern) => remove(shard, pattern, request.force()).await,
        Err(status) => Err(status),
    };
    finish_count(builder, count);
    Ok(Tally::one(RpcKind::RemoveByRegex, count.is_ok()))
}

pub(super) async fn remove_all(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let force = decode::<master::RemoveAllRequest<'_>>(body)?.force();
    let count = remove(shard, Pattern::any(), force).await;
    finish_count(builder, count);
    Ok(Tally::one(RpcKind::RemoveAll, count.is_ok()))
}

async fn remove(shard: &ControlShard, pattern: Pattern, force: bool) -> Result<u64, Status> {
    let mut removed = 0;
    let step = move |keys: &mut KeyShard, scan: &mut Scan| {
        keys.remove_step(monotonic_ms(), scan, &pattern, force)
    };
    let count = |step| {
        removed += step;
        true
    };
    shard.walk(step, count).await?;
    Ok(removed)
}

pub(super) async fn list_by_regex(
    shard: &ControlShard,
    body: &[u8],
    builder: &mut Builder,
) -> Result<Tally, Refusal> {
    let request = decode::<master::ListByRegexRequest<'_>>(body)?;
    let limit = request.limit() as usize;
    let found = match Pattern::compile(request.pattern().unwrap_or_default()) {
        Ok(pattern) => list(shard, pattern, limit).await,
        Err(status) => Err(status),
    };
    let status = found.as_ref().err().map_or(0, |status| status.code());
    let found = found.unwrap_or_default();
    let offsets: Vec<_> = found.iter().map(|key| builder.create_string(key)).collect();
    let keys = Some(builder.create_vector(&offsets));
    let root = master::ListReply::create(builder, &master::ListReplyArgs { status, keys });
    builder.finish_minimal(root);
    Ok(Tally::one(RpcKind::ListByRegex, status == 0))
}

async fn list(shard: &ControlShard, pattern: Pattern, limit: usize) -> Result<Vec<String>, Status> {
    let mut found: Vec<String> = Vec::new();
    let step = move |keys: &mut KeyShard, scan: &mut Scan| {
        let mut met = Vec::new();
        let collect = |key: &[u8]| met.push(String::from_utf8_lossy(key).into_owned());
        keys.list_step(scan, &pattern, collect);
        met
    };
    let collect = |met: Vec<String>| {
        found.extend(met);
        found.len() < limit
    };
    shard.walk(step, collect).await?;
    found.truncate(limit);
    Ok(found)
}

impl ControlShard {
    /// Walks over the keys of every shard, all shards at once. `take` gets the result of each step and ends the walk by
    /// returning false.
    ///
    /// # Errors
    /// A shard is gone.
    async fn walk<R: Send + 'static>(
        &self,
        step: impl Fn(&mut KeyShard, &mut Scan) -> R + Clone + Send + 'static,
        mut take: impl FnMut(R) -> bool,
    ) -> Result<(), Status> {
        let mut walking: Vec<(usize, Option<Scan>)> = (0..self.members().len())
            .map(|owner| (owner, None))
            .collect();
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
        step: impl Fn(&mut KeyShard, &mut Scan) -> R + Send + 'static,
    ) -> perigee_shard::Call<Option<(Scan, R)>> {
        let member = &self.members()[owner];
        let name = member.name;
        self.environment.call(&member.mailbox, move |theirs| {
            let shard = theirs.local(name)?;
            let keys = &mut shard.keys.borrow_mut();
            let mut scan = scan.unwrap_or_else(|| keys.scan());
            let result = step(keys, &mut scan);
            Some((scan, result))
        })
    }
}
