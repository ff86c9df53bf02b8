//! The summary line, in Mooncake's present and older form. Invariant: rates are taken between two
//! readings of one [`Rates`], so two readers never disturb each other.

use perigee_metrics::{CallTotals, MasterCells, MasterNumbers, RpcKind};
use std::sync::Arc;
use std::time::Instant;

/// Calls of a feature that is not built; always 0.
const IDLE_CALL: &str = "EvictDiskReplica";

/// Steps of copies and moves, as [`steps`] counts them.
const STEPS: [&str; 6] =
    ["CopyStart", "CopyEnd", "CopyRevoke", "MoveStart", "MoveEnd", "MoveRevoke"];

const SINGLE_CALLS: [(&str, RpcKind); 8] = [
    ("PutStart", RpcKind::PutStart),
    ("PutEnd", RpcKind::PutEnd),
    ("PutRevoke", RpcKind::PutRevoke),
    ("Get", RpcKind::GetReplicaList),
    ("Exist", RpcKind::ExistKey),
    ("Del", RpcKind::Remove),
    ("DelAll", RpcKind::RemoveAll),
    ("Ping", RpcKind::Ping),
];

/// Batch calls in Mooncake's order; `None` for one that is not built.
const BATCH_CALLS: [(&str, Option<RpcKind>); 7] = [
    ("PutStart", Some(RpcKind::BatchPutStart)),
    ("PutEnd", Some(RpcKind::BatchPutEnd)),
    ("PutRevoke", Some(RpcKind::BatchPutRevoke)),
    ("Get", Some(RpcKind::BatchGetReplicaList)),
    ("ExistKey", Some(RpcKind::BatchExistKey)),
    ("QueryIp", None),
    ("Clear", Some(RpcKind::BatchReplicaClear)),
];

const TASK_CALLS: [&str; 5] =
    ["CreateMoveTask", "CreateCopyTask", "QueryTask", "FetchTasks", "MarkTaskToComplete"];

const HA_PART: &str = "HA Metrics Summary: last_seq=0, applied_seq=0, lag=0, pending=0, \
     mutation_queue=0, batch_commits=0, sync_commits=0, skipped=0, checksum_fail=0, etcd_fail=0, \
     watch_disconn=0, state=0";

/// The calls at the last reading.
#[derive(Debug)]
pub struct Rates {
    at: Instant,
    calls: Vec<CallTotals>,
    steps: [u64; STEPS.len()],
}

/// Calls since the last reading, and how long that was.
struct Window {
    seconds: f64,
    calls: Vec<CallTotals>,
    steps: [u64; STEPS.len()],
}

fn steps(numbers: &MasterNumbers) -> [u64; STEPS.len()] {
    let ([a, b, c], [d, e, f]) = (numbers.copies, numbers.replacements);
    [a, b, c, d, e, f]
}

impl Window {
    #[expect(clippy::cast_precision_loss, reason = "a shown rate needs no more than 53 bits")]
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    fn of(&self, kind: RpcKind) -> &CallTotals {
        &self.calls[kind as usize]
    }
}

impl Rates {
    /// Starts at `now` with no calls.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            at: now,
            calls: vec![CallTotals::default(); RpcKind::COUNT],
            steps: [0; STEPS.len()],
        }
    }

    /// Mooncake's present text: `role=..., state=..., master={...}, ha={...}`.
    pub fn admin_text(
        &mut self,
        now: Instant,
        cells: &[Arc<MasterCells>],
        numbers: &MasterNumbers,
        ready: bool,
    ) -> String {
        let window = self.advance(now, cells, numbers);
        let state = if ready { "serving" } else { "starting" };
        let mut parts = vec![
            storage_part(numbers),
            format!("Clients: {}", numbers.active_clients),
            single_part(&window),
            batch_part(&window),
            eviction_part(numbers),
        ];
        parts.extend(repair_part(numbers));
        format!(
            "role=leader, state={state}, service_ready={ready}, master={{{}}}, ha={{{HA_PART}}}",
            parts.join(" | ")
        )
    }

    fn advance(
        &mut self,
        now: Instant,
        cells: &[Arc<MasterCells>],
        numbers: &MasterNumbers,
    ) -> Window {
        let totals: Vec<CallTotals> = RpcKind::ALL
            .iter()
            .map(|kind| MasterCells::call_totals(cells.iter().map(AsRef::as_ref), *kind))
            .collect();
        let calls = totals.iter().zip(&self.calls).map(|(new, old)| since(new, old)).collect();
        /// Shortest window in seconds, so that a second reading at once shows no absurd rates.
        const WINDOW_MIN: f64 = 1e-3;
        let seconds = now.saturating_duration_since(self.at).as_secs_f64().max(WINDOW_MIN);
        let (before, now_at) = (self.steps, steps(numbers));
        let steps = std::array::from_fn(|at| now_at[at].saturating_sub(before[at]));
        *self = Self { at: now, calls: totals, steps: now_at };
        Window { seconds, calls, steps }
    }
}

fn since(new: &CallTotals, old: &CallTotals) -> CallTotals {
    CallTotals {
        requests: new.requests.saturating_sub(old.requests),
        failures: new.failures.saturating_sub(old.failures),
        partial_successes: new.partial_successes.saturating_sub(old.partial_successes),
        items: new.items.saturating_sub(old.items),
        failed_items: new.failed_items.saturating_sub(old.failed_items),
    }
}

/// The older text that guides and dashboards still look for: `Storage: ... | Keys: ...`.
#[must_use]
pub fn older_text(cells: &[Arc<MasterCells>], numbers: &MasterNumbers) -> String {
    let storage = share(numbers.allocated_bytes, numbers.capacity_bytes);
    let calls: Vec<String> = SINGLE_CALLS
        .iter()
        .map(|(label, kind)| {
            let totals = MasterCells::call_totals(cells.iter().map(AsRef::as_ref), *kind);
            format!("{label}={}/{}", totals.successes(), totals.requests)
        })
        .collect();
    format!(
        "Storage: {storage} | Keys: {} (soft-pinned: {}) | Requests (Success/Total): {} | \
         Eviction: Success/Attempts={}/{}, keys={}, size={}",
        numbers.keys,
        numbers.soft_pinned_keys,
        calls.join(", "),
        numbers.evictions_successful,
        numbers.evictions_attempted,
        numbers.evicted_keys,
        bytes_text(numbers.evicted_bytes)
    )
}

fn storage_part(numbers: &MasterNumbers) -> String {
    format!(
        "Mem Storage: {} | NVMe-oF SSD: 0 B / 0 B | SSD Storage: {} | Keys: {} (soft-pinned: {})",
        share(numbers.allocated_bytes, numbers.capacity_bytes),
        share(numbers.disk_bytes, numbers.disk_capacity_bytes),
        numbers.keys,
        numbers.soft_pinned_keys
    )
}

/// Repairs of replicas, which Mooncake does not have: said only if there were any.
fn repair_part(numbers: &MasterNumbers) -> Option<String> {
    let ([started, done, failed], pending) = (numbers.repaired, numbers.repairs);
    (pending + started > 0)
        .then(|| format!("Repairs: Pending={pending}, Done={done}, Failed={failed}"))
}

fn single_part(window: &Window) -> String {
    let rates = SINGLE_CALLS.iter().map(|(label, kind)| {
        let totals = window.of(*kind);
        let good = window.per_second(totals.successes());
        format!("{label}={good:.2}/{:.2}", window.per_second(totals.requests))
    });
    let steps = STEPS.iter().zip(window.steps).map(|(label, count)| {
        let rate = window.per_second(count);
        format!("{label}={rate:.2}/{rate:.2}")
    });
    let idle = format!("{IDLE_CALL}=0.00/0.00");
    let parts: Vec<String> = rates.chain(steps).chain([idle]).collect();
    format!("Requests (Success/Total per sec): {}", parts.join(", "))
}

fn batch_part(window: &Window) -> String {
    let zero = CallTotals::default();
    let batches = BATCH_CALLS.iter().map(|(label, kind)| {
        let totals = kind.map_or(&zero, |kind| window.of(kind));
        format!(
            "{label}:(Req={:.2}/{:.2}/{:.2}, Item={:.2}/{:.2})",
            window.per_second(totals.successes()),
            window.per_second(totals.partial_successes),
            window.per_second(totals.requests),
            window.per_second(totals.good_items()),
            window.per_second(totals.items)
        )
    });
    let tasks = TASK_CALLS.iter().map(|label| format!("{label}:(Req=0.00/0.00)"));
    let parts: Vec<String> = batches.chain(tasks).collect();
    format!(
        "Batch Requests (per sec, Req=Success/PartialSuccess/Total, Item=Success/Total): {}",
        parts.join(", ")
    )
}

fn eviction_part(numbers: &MasterNumbers) -> String {
    let rounds = format!("{}/{}", numbers.evictions_successful, numbers.evictions_attempted);
    let evicted =
        format!("keys={}, size={}", numbers.evicted_keys, bytes_text(numbers.evicted_bytes));
    format!(
        "Eviction: Success/Attempts={rounds}, AllocFail={}, PartialAlloc={}, {evicted} | \
         Mem Eviction: Success/Attempts={rounds}, {evicted} | \
         NoF Eviction: Success/Attempts=0/0, keys=0, size=0 B | \
         Discard: Released/Total={}/{}, StagingSize={} | \
         Promotion: in_flight=0, admitted=0, completed=0, failed=0, cancelled=0, expired=0, \
         bytes=0 B, rejected(freq/wm/cap)=0/0/0 | Snapshots: Success=0, Fail=0",
        numbers.allocation_failures,
        numbers.partial_allocations,
        numbers.released_writes,
        numbers.discarded_writes,
        bytes_text(numbers.staging_bytes)
    )
}

/// `used / capacity (percent)`, without the percentage when there is no capacity.
#[expect(clippy::cast_precision_loss, reason = "a shown percentage needs no more than 53 bits")]
fn share(used: u64, capacity: u64) -> String {
    let both = format!("{} / {}", bytes_text(used), bytes_text(capacity));
    match capacity {
        0 => both,
        _ => format!("{both} ({:.1}%)", 100.0 * used as f64 / capacity as f64),
    }
}

/// Bytes with a binary unit: `0 B`, `1.01 MB`.
#[expect(clippy::cast_precision_loss, reason = "a shown size needs no more than 53 bits")]
fn bytes_text(bytes: u64) -> String {
    let units = [(1u64 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, label)) => format!("{:.2} {label}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests;
