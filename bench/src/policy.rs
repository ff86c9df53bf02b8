//! `perigee bench policy`: hit rates and costs of misses of eviction policies for a request trace,
//! at many sizes of the pool, with a disk behind it or none.
//! Invariant: policies that a master can follow are played by a shard of the master itself, so a
//! cluster that serves the same requests has the same hit rate.

use std::collections::BTreeSet;
use std::path::Path;

use perigee_master::PolicyName;

use crate::error::BenchError;
use crate::load::requests::read_trace;
use crate::report::{Figure, FigureUnit, Report};
use crate::run::{Run, Tool};
use crate::stop::Stop;
use call_cost::CallCost;
use pool::{Pool, SHORT_LEASE_MS};
use settings::{BELADY, EXAMPLES, PROGRAM, PolicySettings};

mod belady;
mod call_cost;
mod conversations;
mod pool;
mod settings;
mod ssd;
#[cfg(test)]
mod tests;

pub(crate) const TOOL: Tool = Tool { name: "policy", program: PROGRAM, examples: EXAMPLES, run };

fn run(run: Run<'_>) -> Result<(), BenchError> {
    let settings = PolicySettings::of(&run.settings)?;
    let requests = match settings.trace.as_str() {
        "" => conversations::make(settings.made_requests(), settings.seed),
        trace => read_trace(Path::new(trace), settings.requests)?,
    };
    run.measure(|_, stop, report| measure(&settings, &requests, stop, report))
}

fn measure(
    settings: &PolicySettings,
    requests: &[Vec<u64>],
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let blocks: usize = requests.iter().map(Vec::len).sum();
    let different = requests.iter().flatten().collect::<BTreeSet<_>>().len();
    report.notes.push(format!(
        "{} requests for {blocks} blocks, {different} of them different",
        requests.len()
    ));
    report.notes.push(
        "a request: exist, get of the cached prefix, put of the rest; only blocks of an unbroken prefix are hits"
            .to_owned(),
    );
    if settings.trace.is_empty() {
        report.warnings.push("These requests are made up; pass --trace FILE.jsonl".to_owned());
    }
    let ssd_blocks = settings.ssd.map_or(0, |ssd| ssd.blocks(different));
    if ssd_blocks > 0 {
        report.notes.push(format!(
            "a disk of {ssd_blocks} blocks takes what memory evicts, the oldest goes first; what is read there comes back to memory and stays there too"
        ));
    }
    for pool in &settings.pools {
        let pool_blocks = pool.blocks(different);
        let (mut rates, mut taken) = (Vec::new(), Vec::new());
        for policy in &settings.policies {
            if stop.is_set() {
                return Ok(());
            }
            let room = PoolSizes { pool_blocks, ssd_blocks };
            let (hits, cost) = hits(settings, *policy, room, requests)?;
            let rate = hits as f64 / blocks.max(1) as f64;
            let name = format!("{}, {pool_blocks} blocks", policy.map_or(BELADY, word));
            report.figures.extend(costs(settings, &name, blocks - hits, requests.len()));
            let calls = cost.map(|cost| cost.figures(&name, requests.len()));
            report.figures.extend(calls.into_iter().flatten());
            report.figures.push(share(name, rate));
            rates.push((*policy, rate));
            taken.extend(cost.map(|cost| (*policy, cost)));
        }
        report.figures.extend(gap(&rates, pool_blocks));
        report.figures.extend(put_start_ratio(&taken, pool_blocks));
    }
    Ok(())
}

/// Blocks that fit.
#[derive(Clone, Copy)]
struct PoolSizes {
    pool_blocks: u64,
    ssd_blocks: u64,
}

/// What a request has to compute again, on average.
fn costs(
    settings: &PolicySettings,
    name: &str,
    missed_blocks: usize,
    requests: usize,
) -> [Figure; 2] {
    let blocks = missed_blocks as f64 / requests.max(1) as f64;
    let tokens = blocks * settings.block_tokens as f64;
    let figure = |what, value, unit| {
        let name = format!("{name}: {what} missed per request");
        Figure { name, value, unit, goal: None }
    };
    [
        figure("tokens", tokens, FigureUnit::Count),
        figure("bytes", tokens * settings.token_bytes as f64, FigureUnit::Bytes),
    ]
}

fn hits(
    settings: &PolicySettings,
    policy: Option<PolicyName>,
    room: PoolSizes,
    requests: &[Vec<u64>],
) -> Result<(usize, Option<CallCost>), BenchError> {
    let PoolSizes { pool_blocks, ssd_blocks } = room;
    let Some(policy) = policy else {
        return Ok((belady::hits(requests, (pool_blocks + ssd_blocks) as usize), None));
    };
    let mut pool = Pool::new(policy, &[pool_blocks], SHORT_LEASE_MS, settings.watermark_ratio);
    pool.add_ssd(ssd_blocks as usize);
    let hits = requests.iter().map(|request| pool.request(request)).sum::<Result<_, _>>()?;
    Ok((hits, Some(pool.cost)))
}

/// What the adaptive policy adds to `put_start`.
fn put_start_ratio(taken: &[(Option<PolicyName>, CallCost)], pool_blocks: u64) -> Option<Figure> {
    let of = |wanted| taken.iter().find(|(policy, _)| *policy == Some(wanted)).map(|it| &it.1);
    let (lru, adaptive) = (of(PolicyName::Lru)?, of(PolicyName::Adaptive)?);
    let name = format!("put_start of adaptive against lru, {pool_blocks} blocks");
    Some(adaptive.against(lru, &name))
}

/// How much of what the best possible order has over LRU the adaptive policy gets.
fn gap(rates: &[(Option<PolicyName>, f64)], pool_blocks: u64) -> Option<Figure> {
    let of = |wanted| rates.iter().find(|(policy, _)| *policy == wanted).map(|(_, rate)| *rate);
    let lru = of(Some(PolicyName::Lru))?;
    let (adaptive, best) = (of(Some(PolicyName::Adaptive))?, of(None)?);
    let name = format!("part of belady's lead over lru that adaptive has, {pool_blocks} blocks");
    (best > lru).then(|| share(name, (adaptive - lru) / (best - lru)))
}

fn share(name: String, value: f64) -> Figure {
    Figure { name, value, unit: FigureUnit::Share, goal: None }
}

fn word(policy: PolicyName) -> &'static str {
    let known = PolicyName::ALL.into_iter().find(|(_, one)| *one == policy);
    known.map_or("", |(word, _)| word)
}
