//! The summary texts. Invariant: expected texts are those of a real Mooncake master.

use super::*;
use std::time::Duration;

fn numbers() -> MasterNumbers {
    MasterNumbers {
        allocated_bytes: 1_061_888,
        capacity_bytes: 128 << 20,
        keys: 4,
        active_clients: 2,
        ..Default::default()
    }
}

#[test]
fn an_idle_master_reads_like_an_idle_mooncake() {
    let now = Instant::now();
    let text = Rates::new(now).admin_text(now, &[], &MasterNumbers::default(), true);
    assert!(text.starts_with(
        "role=leader, state=serving, service_ready=true, master={Mem Storage: 0 B / 0 B | \
         NVMe-oF SSD: 0 B / 0 B | SSD Storage: 0 B / 0 B | Keys: 0 (soft-pinned: 0) | Clients: 0 | \
         Requests (Success/Total per sec): PutStart=0.00/0.00, PutEnd=0.00/0.00,"
    ));
    assert!(text.contains("ExistKey:(Req=0.00/0.00/0.00, Item=0.00/0.00), QueryIp:("));
    assert!(
        text.contains(" | Eviction: Success/Attempts=0/0, AllocFail=0, PartialAlloc=0, keys=0")
    );
    assert!(text.ends_with(
        "Fail=0}, ha={HA Metrics Summary: last_seq=0, applied_seq=0, lag=0, \
         pending=0, mutation_queue=0, batch_commits=0, sync_commits=0, skipped=0, \
         checksum_fail=0, etcd_fail=0, watch_disconn=0, state=0}"
    ));
}

#[test]
fn rates_are_taken_between_two_readings() {
    let start = Instant::now();
    let cells = [Arc::new(MasterCells::default())];
    let mut rates = Rates::new(start);
    cells[0].record_call(RpcKind::PutStart, true, 1);
    cells[0].record_call(RpcKind::PutStart, false, 1);
    cells[0].record_batch(RpcKind::BatchExistKey, 4, 1, 1);
    let text = rates.admin_text(start + Duration::from_secs(2), &cells, &numbers(), true);
    assert!(text.contains("PutStart=0.50/1.00,"), "{text}");
    assert!(text.contains("ExistKey:(Req=0.00/0.50/0.50, Item=1.50/2.00)"), "{text}");
    let moved = MasterNumbers { copies: [4, 3, 1], replacements: [2, 2, 0], ..numbers() };
    let text = rates.admin_text(start + Duration::from_secs(4), &cells, &moved, true);
    assert!(text.contains("PutStart=0.00/0.00,"), "{text}");
    let steps = "CopyStart=2.00/2.00, CopyEnd=1.50/1.50, CopyRevoke=0.50/0.50, MoveStart=1.00/1.00";
    assert!(text.contains(steps), "{text}");
}

#[test]
fn sizes_and_shares_are_shown_as_in_mooncake() {
    let now = Instant::now();
    let text = Rates::new(now).admin_text(now, &[], &numbers(), true);
    assert!(text.contains("Mem Storage: 1.01 MB / 128.00 MB (0.8%) |"), "{text}");
    assert_eq!(bytes_text(1023), "1023 B");
    assert_eq!(bytes_text(3 << 40), "3.00 TB");
}

#[test]
fn older_text_has_the_words_that_guides_show() {
    let text = older_text(&[], &numbers());
    assert!(text.starts_with("Storage: 1.01 MB / 128.00 MB (0.8%) | Keys: 4 (soft-pinned: 0) | "));
}
