//! The probes in the running kernel, under real load. Needs root; says SKIP loudly where it is not
//! allowed.

#[path = "kernel/remains.rs"]
mod remains;

use perigee_probe_loader::{Feature, Probes, is_built};
use remains::Remains;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

/// Tests that look at what is attached to the host run one after the other.
static HOST: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The probes, or `None` with a loud word where this build or this user cannot have them.
#[allow(clippy::unwrap_used, reason = "a test's own steps")]
#[allow(clippy::panic, reason = "root can have probes, so this is a failed test")]
fn probes(wanted: &[Feature]) -> Option<Probes> {
    if !is_built() {
        eprintln!("SKIP: this build has no eBPF probes");
        return None;
    }
    let is_root = nix::unistd::geteuid().is_root();
    match Probes::load(&BTreeMap::new()) {
        Ok(probes) => {
            let off: Vec<_> = wanted.iter().filter(|feature| !probes.works(**feature)).collect();
            assert!(off.is_empty() || !is_root, "off although root: {:?}", probes.states());
            off.is_empty().then_some(probes)
        }
        Err(error) if is_root => panic!("root cannot load the probes: {error}"),
        Err(error) => {
            eprintln!("SKIP: {error}");
            None
        }
    }
}

/// Bytes and packets that this thread's `lo` has received, as the kernel counts them.
#[allow(clippy::unwrap_used, reason = "a test's own steps")]
fn loopback_counters() -> (u64, u64) {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = table.lines().find_map(|line| line.trim().strip_prefix("lo:")).unwrap();
    let mut numbers = line.split_whitespace().map(|word| word.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[allow(clippy::unwrap_used, reason = "a test's own steps")]
fn send_over_loopback(bytes: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut sink = Vec::new();
        stream.read_to_end(&mut sink).unwrap();
        stream.write_all(b"done").unwrap();
        sink.len()
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&vec![7; bytes]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!((server.join().unwrap(), answer.as_slice()), (bytes, &b"done"[..]));
}

fn loopback() -> (u32, String) {
    let index = nix::net::if_::if_nametoindex("lo").expect("every namespace has a loopback");
    (index, "lo".to_owned())
}

/// Whether there is a tool that lists what the kernel holds.
fn has_bpftool() -> bool {
    let has = Command::new("bpftool").arg("version").output().is_ok();
    if !has {
        eprintln!("SKIP: no bpftool");
    }
    has
}

#[test]
fn bytes_of_a_nic_are_those_the_kernel_counts() {
    let _alone = alone();
    let Some(mut probes) = probes(&[Feature::Nics]) else {
        return;
    };
    // A network of its own: no other packets.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
    assert!(up.success());
    let interface = loopback();
    assert!(probes.watch_interfaces(&BTreeSet::from([interface.clone()])).is_empty());
    let before = loopback_counters();
    send_over_loopback(16 << 20);
    let after = loopback_counters();
    let counted = probes.nic(interface.0).unwrap().unwrap().totals;
    // On the way out a large segment counts with the headers of every packet it becomes: 66 bytes
    // each.
    let more = counted.transmit_bytes - counted.receive_bytes;
    assert!(more.is_multiple_of(66), "{counted:?}");
    assert!(counted.receive_bytes >= 16 << 20);
    // The loopback's own counters leave out the link header of each packet.
    let headers = 14 * (after.1 - before.1);
    assert_eq!(counted.receive_bytes, after.0 - before.0 + headers);
}

/// Round trips over the loopback and over what has no slot here.
#[allow(clippy::unwrap_used, reason = "a test's own steps")]
fn round_trips(probes: &Probes) -> [u64; 2] {
    [0, loopback().0].map(|slot| probes.tcp(slot).unwrap().unwrap().totals.round_trip.count)
}

#[test]
fn round_trips_of_a_group_count_also_if_it_becomes_known_when_its_connections_are_over() {
    let _alone = alone();
    let Some(mut probes) = probes(&[Feature::RoundTrips]) else {
        return;
    };
    let Some(group) = TestGroup::enter("perigee-test-rtt") else {
        eprintln!("SKIP: no cgroup2 that can be written");
        return;
    };
    probes.watch_groups(&group.top, &BTreeSet::new()).unwrap();
    let before = round_trips(&probes);
    send_over_loopback(4 << 20);
    assert_eq!(round_trips(&probes), before, "other groups do not count");
    probes.watch_groups(&group.top, &BTreeSet::from([group.number])).unwrap();
    let taken_over = round_trips(&probes);
    // A connection that is over may not know any more which NIC it went through.
    let sum = |counts: [u64; 2]| counts.iter().sum::<u64>();
    assert!(sum(taken_over) > sum(before), "{before:?} {taken_over:?}");
    probes.watch_groups(&group.top, &BTreeSet::from([group.number])).unwrap();
    let again = round_trips(&probes);
    // The last acknowledgements of a connection that closes may come now; all once more would be
    // twice as many.
    let (taken, more) = (sum(taken_over) - sum(before), sum(again) - sum(taken_over));
    assert!(more <= taken / 2, "taken over once: {before:?} {taken_over:?} {again:?}");
    // The kernel measures once in a window, so a short connection may end without a measurement.
    let connections = (0..20).take_while(|_| {
        send_over_loopback(4 << 20);
        sum(round_trips(&probes)) == sum(again)
    });
    assert!(connections.count() < 20, "known groups count");
}

#[test]
fn connections_of_another_network_namespace_count_on_no_nic_here() {
    let _alone = alone();
    let Some(mut probes) = probes(&[Feature::RoundTrips]) else {
        return;
    };
    let Some(group) = TestGroup::enter("perigee-test-netns") else {
        eprintln!("SKIP: no cgroup2 that can be written");
        return;
    };
    probes.watch_groups(&group.top, &BTreeSet::from([group.number])).unwrap();
    let before = round_trips(&probes);
    // Only this thread goes there; the probes stay with the process's namespace.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
    assert!(up.success());
    send_over_loopback(4 << 20);
    let after = round_trips(&probes);
    assert!(after[0] > before[0], "{before:?} {after:?}");
    assert_eq!(after[1], before[1]);
}

/// This process in a control group of its own until the end of the test.
struct TestGroup {
    path: PathBuf,
    before: PathBuf,
    top: PathBuf,
    number: u64,
}

impl TestGroup {
    fn enter(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let path = words.nth(1)?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(path))
        })?;
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let path = mount.join(name);
        std::fs::create_dir_all(&path).ok()?;
        std::fs::write(path.join("cgroup.procs"), std::process::id().to_string()).ok()?;
        let number = std::fs::metadata(&path).ok()?.ino();
        Some(Self { path, before: mount.join(own), top: mount, number })
    }
}

impl Drop for TestGroup {
    fn drop(&mut self) {
        let _ = std::fs::write(self.before.join("cgroup.procs"), std::process::id().to_string());
        let _ = std::fs::remove_dir(&self.path);
    }
}

#[test]
fn every_direct_write_is_one_request_of_a_disk() {
    let _alone = alone();
    let Some(probes) = probes(&[Feature::Blocks]) else {
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut options = File::options();
    let options = options.write(true).create(true).custom_flags(nix::libc::O_DIRECT);
    let Ok(mut file) = options.open(folder.path().join("blocks")) else {
        eprintln!("SKIP: no direct I/O in the target folder");
        return;
    };
    let totals = |probes: &Probes| {
        let blocks = probes.blocks().unwrap();
        let writes = blocks.iter().filter(|block| block.key.operation == 1);
        writes.fold((0, 0, 0), |sum, block| {
            let totals = &block.totals;
            (sum.0 + totals.device.count, sum.1 + totals.bytes, sum.2 + totals.device.sum)
        })
    };
    let before = totals(&probes);
    let block = aligned_block();
    for _ in 0..100 {
        file.write_all(block).unwrap();
    }
    let deadline = Instant::now() + LONG;
    loop {
        let after = totals(&probes);
        if after.0 >= before.0 + 100 && after.1 >= before.1 + 100 * 4096 {
            assert!(after.2 > before.2, "requests take time");
            return;
        }
        assert!(Instant::now() < deadline, "{before:?} then {after:?}");
        std::thread::yield_now();
    }
}

/// A block where direct I/O wants it.
fn aligned_block() -> &'static [u8] {
    #[repr(align(4096))]
    struct Block([u8; 4096]);
    static BLOCK: Block = Block([7; 4096]);
    &BLOCK.0
}

#[test]
fn a_thread_that_sleeps_is_seen_sleeping() {
    let _alone = alone();
    let Some(mut probes) = probes(&[Feature::Tasks]) else {
        return;
    };
    let thread = nix::unistd::gettid().as_raw() as u32;
    probes.watch_threads(&BTreeSet::from([thread])).unwrap();
    let deadline = Instant::now() + LONG;
    while probes.task(thread).unwrap().off_cpu.count < 3 {
        assert!(Instant::now() < deadline, "{:?}", probes.task(thread));
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let totals = probes.task(thread).unwrap();
    assert!(totals.off_cpu.sum >= 3_000_000, "{totals:?}");
    assert!(totals.run_queue.count >= 3, "{totals:?}");
    probes.watch_threads(&BTreeSet::new()).unwrap();
    assert!(probes.task(thread).is_none());
}

#[test]
fn io_uring_is_attached_only_for_the_time_it_is_watched() {
    let _alone = alone();
    let Some(mut probes) = probes(&[Feature::Urings]) else {
        return;
    };
    if !has_bpftool() {
        return;
    }
    let links = |remains: &mut Remains| {
        remains.note().unwrap();
        let left = remains.left(Duration::ZERO).unwrap();
        left.iter().filter(|one| one.starts_with("link ")).count()
    };
    let watched = links(&mut Remains::default());
    probes.sample_urings(false).unwrap();
    assert_eq!(links(&mut Remains::default()), watched - 2);
    assert!(probes.works(Feature::Urings), "it is on, for a part of the time");
    for _ in 0..2 {
        probes.sample_urings(true).unwrap();
        assert_eq!(links(&mut Remains::default()), watched);
    }
}

#[test]
fn nothing_stays_attached_when_probes_are_dropped() {
    let _alone = alone();
    let Some(mut probes) = probes(&[Feature::Nics, Feature::Blocks]) else {
        return;
    };
    let failed = probes.watch_interfaces(&BTreeSet::from([loopback()]));
    assert!(failed.is_empty(), "{failed:?}");
    if !has_bpftool() {
        return;
    }
    let mut remains = Remains::default();
    remains.note().unwrap();
    let held = remains.left(Duration::ZERO).unwrap();
    for kind in ["prog ", "map ", "link ", "btf "] {
        let found = held.iter().any(|one| one.starts_with(kind));
        assert!(found, "no {kind}in {held:?}");
    }
    drop(probes);
    // The kernel frees programs a moment later.
    assert_eq!(remains.left(LONG).unwrap(), Vec::<String>::new());
}

#[test]
fn attachments_under_load_lose_nothing_and_leave_nothing() {
    let _alone = alone();
    // A longer run: PERIGEE_TEST_ATTACHMENTS=1000, some ten minutes.
    let wanted = std::env::var("PERIGEE_TEST_ATTACHMENTS").ok();
    let wanted: usize = wanted.map_or(20, |text| text.parse().unwrap());
    if probes(&[Feature::Nics]).is_none() || !has_bpftool() {
        return;
    }
    let mut remains = Remains::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut bytes = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                one.write_all(&[7; 4096]).unwrap();
                bytes += 4096;
            }
            one.shutdown(std::net::Shutdown::Write).unwrap();
            bytes
        });
        let receiver = scope.spawn(|| std::io::copy(&mut other, &mut std::io::sink()).unwrap());
        for _ in 0..wanted {
            let mut probes = probes(&[Feature::Nics]).unwrap();
            let failed = probes.watch_interfaces(&BTreeSet::from([loopback()]));
            assert!(failed.is_empty(), "{failed:?}");
            remains.note().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        (sender.join().unwrap(), receiver.join().unwrap())
    });
    assert_eq!(sent, received);
    assert!(remains.made() > wanted * 4, "{} things", remains.made());
    assert_eq!(remains.left(LONG).unwrap(), Vec::<String>::new());
}
