//! Batches of pages that this process writes.

use super::*;
use crate::persisted::StateFolder;
use perigee_activity::{MarkRing, Page, PageDirectory};

struct Fixture {
    marks: Marks,
    ledger: Ledger,
    directory: PageDirectory,
    _folder: tempfile::TempDir,
}

fn fixture(slow: Duration) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let directory = PageDirectory::new(folder.path());
    Fixture {
        marks: Marks::new(slow),
        ledger: Ledger::open(&StateFolder::default()),
        directory,
        _folder: folder,
    }
}

impl Fixture {
    fn read(&mut self) -> Snapshot {
        let pages = PageListing::read(&self.directory, |_| false);
        let host = MarksSeenBy {
            pages: &pages,
            found: &FoundProcesses::default(),
            network: NetworkNamespace::default(),
            taken_ms: 77,
        };
        let mut snapshot = Snapshot::default();
        self.ledger.begin();
        self.marks.read(&host, &mut self.ledger, &mut snapshot);
        self.ledger.end();
        snapshot
    }

    fn ring(&self) -> MarkRing {
        MarkRing::claim(Box::leak(Box::new(Page::create(&self.directory).unwrap()))).unwrap()
    }
}

fn mark(bytes: u64, wire_ns: u64) -> BatchMark {
    let mut mark = BatchMark::new(Route::Tcp, Direction::Read, "eth0", "10.0.0.9:7", "blue");
    (mark.operations, mark.bytes, mark.wire_ns, mark.peer_ns) = (2, bytes, wire_ns, wire_ns / 2);
    mark
}

#[test]
fn batches_are_counted_by_nic_peer_and_tenant_and_slow_ones_listed() {
    let mut fixture = fixture(Duration::from_millis(10));
    let _ = fixture.read();
    let page = fixture.ring();
    page.put(&mark(100, 5_000));
    page.put(&mark(100, 20_000_000));
    page.put(&mark(100, 5_000_000));
    let snapshot = fixture.read();
    assert_eq!(snapshot.batches.len(), 1);
    let batches = &snapshot.batches[0];
    assert_eq!((batches.device.as_str(), batches.peer.as_str()), ("eth0", "10.0.0.9"));
    assert_eq!((batches.tenant.as_str(), batches.route.as_str()), ("blue", "tcp"));
    assert_eq!((batches.operations, batches.bytes, batches.latency.count), (6, 300, 3));
    assert_eq!(snapshot.slow.len(), 1);
    let slow = &snapshot.slow[0];
    assert_eq!(
        (slow.wire_ns, slow.peer_ns, slow.pid),
        (10_000_000, 10_000_000, std::process::id())
    );
    assert!(!slow.program.is_empty());
    assert_eq!(slow.ended_ms, 77, "it ended after the reading, says its process");
    let again = fixture.read();
    assert_eq!((again.batches[0].bytes, again.slow.len()), (300, 1));
}

#[test]
fn what_was_done_before_the_agent_began_is_listed_but_not_counted_again() {
    let mut fixture = fixture(Duration::from_millis(10));
    let page = fixture.ring();
    page.put(&mark(100, 20_000_000));
    let snapshot = fixture.read();
    assert_eq!((snapshot.batches.len(), snapshot.slow.len()), (0, 1));
    page.put(&mark(100, 30_000_000));
    let snapshot = fixture.read();
    assert_eq!((snapshot.batches[0].bytes, snapshot.slow.len()), (100, 2));
}

#[test]
fn without_a_threshold_quick_batches_are_listed_as_well() {
    let mut fixture = fixture(Duration::ZERO);
    let page = fixture.ring();
    page.put(&mark(1, 5_000));
    page.put(&mark(2, 20_000_000));
    let slow = fixture.read().slow;
    let mut bytes: Vec<u64> = slow.iter().map(|batch| batch.bytes).collect();
    bytes.sort_unstable();
    assert_eq!(bytes, [1, 2]);
}

fn labels_of(tenant: usize) -> Labels {
    let tenant = tenant.to_string();
    ["eth0", "10.0.0.1", &tenant, "tcp", "read"].map(str::to_owned)
}

#[test]
fn who_came_first_keeps_its_name_and_the_rest_shares_one() {
    let mut named = BTreeSet::new();
    for tenant in 0..BATCH_SERIES_MAX {
        assert_eq!(admit(&mut named, labels_of(tenant))[2], tenant.to_string());
    }
    assert_eq!(admit(&mut named, labels_of(BATCH_SERIES_MAX))[2], "other");
    assert_eq!(admit(&mut named, labels_of(0))[2], "0");
}

#[test]
fn an_address_without_a_port_stays_whole() {
    let mark = BatchMark::new(Route::Tcp, Direction::Read, "eth0", "fd00::9", "");
    assert_eq!(labels(&mark, String::new())[1], "fd00::9");
}

#[test]
fn sockets_nics_of_another_network_namespace_are_marked_and_rdma_devices_are_the_hosts() {
    let nic = |route, is_foreign| {
        let mark = BatchMark::new(route, Direction::Read, "eth0", "", "");
        Place { is_foreign, pid: 1, program: "" }.nic(&mark)
    };
    assert_eq!(nic(Route::Tcp, false), "eth0");
    assert_eq!(nic(Route::Tcp, true), "netns:eth0");
    assert_eq!(nic(Route::Rdma, true), "eth0");
}

#[test]
fn slow_batches_that_gave_way_are_counted_only_above_what_is_asked() {
    let mut fixture = fixture(Duration::from_millis(10));
    let page = fixture.ring();
    let _ = fixture.read();
    (0..500).for_each(|_| page.put(&mark(1, 2_000_000)));
    let snapshot = fixture.read();
    assert_eq!((snapshot.slow.len(), snapshot.lost["slow_batches"]), (0, 0));
    (0..100).for_each(|_| page.put(&mark(1, 20_000_000)));
    let snapshot = fixture.read();
    let shown = snapshot.slow.len() as u64;
    assert!(shown < 100, "there is no room for all");
    assert_eq!(snapshot.lost["slow_batches"], 100 - shown);
}
