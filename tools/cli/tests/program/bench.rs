//! The bench tools as users start them: loopback runs, two processes, a target that is killed.
//! Invariant: what was measured is printed, however the run ends.

use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::output_of;
use serde_json::Value;

/// Longest time any step may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A run of `perigee bench` that must succeed, as JSON.
#[track_caller]
pub(crate) fn report(arguments: &[&str]) -> Value {
    let mut words = vec!["bench"];
    words.extend(arguments);
    words.push("--format=json");
    let output = output_of("perigee", &words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).parse().unwrap()
}

#[track_caller]
pub(crate) fn refused(arguments: &[&str], code: i32, part: &str) {
    let output = output_of("perigee", arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.contains(part), "{part:?} is missing in {message}");
}

/// A process that is killed when dropped, with its first line.
pub(crate) struct Target {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
}

impl Target {
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perigee"));
        command.arg0(name).args(arguments).stdout(Stdio::piped());
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The rest of the line that starts with `word`.
    pub(crate) fn ready(&mut self, word: &str) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let rest = line.strip_prefix(word).unwrap_or_else(|| panic!("{line:?}"));
        rest.trim().to_owned()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_nic_run_without_a_peer_is_loopback_and_says_so() {
    let run = report(&["nic", "--size=64k", "--iterations=200", "--verify", "--buffer=16MiB"]);
    assert_eq!((&run["loopback"], &run["complete"]), (&true.into(), &true.into()));
    let totals: Vec<&Value> =
        run["rows"].as_array().unwrap().iter().filter(|row| row["nic"] == "total").collect();
    assert_eq!(totals.len(), 2);
    for (row, operation) in totals.iter().zip(["write", "read"]) {
        assert_eq!(row["operation"], operation);
        assert_eq!((&row["iterations"], &row["corrupt"]), (&200.into(), &0.into()));
        assert!(row["rate"]["average"].as_f64().unwrap() > 0.0);
    }
    let plain = output_of(
        "perigee",
        &["bench", "nic", "--size=4k", "--iterations=50", "--depth=1", "--buffer=1MiB"],
    );
    let plain = text(&plain.stdout);
    assert!(plain.starts_with("LOOPBACK: "), "{plain}");
    assert!(
        plain.contains("#bytes   #iterations BW peak[GB/sec] BW average[GB/sec] MsgRate"),
        "{plain}"
    );
}

#[test]
fn shared_memory_moves_right_bytes_in_both_directions() {
    let run = report(&[
        "nic",
        "--transport=shm",
        "--operation=mixed",
        "--size=4k",
        "--iterations=500",
        "--verify",
        "--threads=2",
        "--buffer=1MiB",
    ]);
    let rows = run["rows"].as_array().unwrap();
    assert_eq!(rows[0]["nic"], "memory");
    let total = rows.last().unwrap();
    assert_eq!((&total["iterations"], &total["corrupt"]), (&500.into(), &0.into()));
}

#[test]
fn a_target_and_an_initiator_are_two_processes() {
    let mut target = Target::start(
        "perigee",
        &["bench", "nic", "--role=target", "--name=127.0.0.1", "--buffer=4MiB"],
    );
    // By host name, as users do: all of it is on this machine all the same.
    let name = target.ready("Target ready: ").replace("127.0.0.1", "localhost");
    let run = report(&[
        "nic",
        "--role=initiator",
        "--peer",
        &name,
        "--buffer=4MiB",
        "--size=4k",
        "--iterations=100",
        "--operation=mixed",
        "--verify",
    ]);
    assert_eq!(run["rows"].as_array().unwrap().last().unwrap()["iterations"], 100);
    assert_eq!(run["settings"]["peer"], name.as_str());
    assert_eq!(run["loopback"], true);
}

#[test]
fn a_killed_target_ends_the_run_within_a_bound_and_rows_so_far_are_printed() {
    let mut target = Target::start(
        "perigee",
        &["bench", "nic", "--role=target", "--name=127.0.0.1", "--buffer=64MiB"],
    );
    let name = target.ready("Target ready: ");
    let mut initiator = Command::new(env!("CARGO_BIN_EXE_perigee"))
        .args(["bench", "nic", "--role=initiator", "--peer", &name, "--buffer=64MiB", "--depth=1"])
        .args(["--all", "--duration=500ms", "--timeout=5s", "--progress", "--format=json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(initiator.stderr.take().unwrap());
    let mut first = String::new();
    errors.read_line(&mut first).unwrap();
    assert!(first.starts_with("write 4 KiB: "), "{first}");
    target.child.kill().unwrap();
    let killed = Instant::now();
    let (mut out, mut error) = (String::new(), String::new());
    let mut output = initiator.stdout.take().unwrap();
    output.read_to_string(&mut out).unwrap();
    errors.read_to_string(&mut error).unwrap();
    let status = initiator.wait().unwrap();
    assert!(killed.elapsed() < DEADLINE);
    assert!([69, 75].contains(&status.code().unwrap()), "{status}: {error}");
    let run: Value = out.parse().unwrap();
    assert_eq!(run["complete"], false);
    assert!(run["error"].as_str().unwrap().contains("127.0.0.1"), "{error}");
    let rows = run["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["bytes"] == 4096), "{rows:?}");
}

#[test]
fn mooncakes_bench_runs_as_target_and_initiator_and_closes_with_its_line() {
    let metadata = crate::process::Server::start(
        "mooncake_http_metadata_server",
        &["--host=127.0.0.1", "--port=0"],
    );
    let address = metadata.ready_value("http");
    let server = format!("--metadata_server=http://{address}/metadata");
    let common = [server.as_str(), "--protocol=tcp", "--buffer_size=16777216"];
    let mut words = vec!["--mode=target", "--local_server_name=127.0.0.1:0"];
    words.extend(common);
    let target = crate::process::Server::start("transfer_engine_bench", &words);
    let line = target.line_with("DRAM is used");
    let name = line.split_whitespace().nth(4).unwrap().to_owned();
    for operation in ["write", "read"] {
        let operation = format!("--operation={operation}");
        let segment = format!("--segment_id={name}");
        let mut words = vec![
            "--mode=initiator",
            "-block_size",
            "65536",
            "--batch_size=8",
            "--threads=2",
            "--duration=1",
            "--nouse_vram",
            "--logtostderr",
            "--report_unit=MiB",
            "--local_server_name=127.0.0.1:0",
            &operation,
            &segment,
        ];
        words.extend(common);
        let output = output_of("transfer_engine_bench", &words);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "");
        let said = text(&output.stderr);
        let line = said.lines().find(|line| line.starts_with("Test completed: duration "));
        let line = line.unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains(", batch count ") && line.ends_with(" MiB/s"), "{line}");
    }
    target.stop();
    metadata.stop();
}

#[test]
fn a_store_run_starts_its_own_cluster_on_either_route() {
    for route in ["--route=auto", "--route=tcp"] {
        let run = report(&[
            "store",
            route,
            "--pool=8MiB",
            "--size=64k",
            "--iterations=30",
            "--verify",
            "--threads=2",
        ]);
        let operations: Vec<&str> = run["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["operation"].as_str().unwrap())
            .collect();
        assert_eq!(operations, ["put", "get", "exist"]);
        assert_eq!(run["loopback"], true);
    }
}

#[test]
fn a_store_run_with_a_disk_has_rows_of_memory_and_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk = format!("--disk={}", folder.path().display());
    let run = report(&["store", &disk, "--pool=16MiB", "--size=256KiB", "--duration=300ms"]);
    let rows = run["rows"].as_array().unwrap();
    let operations: Vec<&str> = rows.iter().filter_map(|row| row["operation"].as_str()).collect();
    let tier = ["tier put", "tier memory", "tier disk", "tier get"];
    assert_eq!(operations, [&["put", "get", "exist"][..], &tier].concat());
    for row in rows {
        assert!(row["rate"]["average"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["corrupt"], 0, "{row}");
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "what was made is removed");
}

#[test]
fn a_master_run_starts_its_own_master() {
    let run = report(&["master", "--keys=2000", "--batch=64", "--iterations=50"]);
    assert_eq!(run["rows"].as_array().unwrap().len(), 3);
    assert_eq!(run["rows"][0]["rate"]["unit"], "keys_per_second");
    let figures = run["figures"].as_array().unwrap();
    let memory = figures.iter().find(|one| one["unit"] == "bytes").unwrap();
    assert_eq!(memory["goal"]["at_most"], 300.0, "{memory}");
}

#[test]
fn puts_with_events_are_held_against_puts_without() {
    let words = ["master", "--keys=1000", "--batch=64", "--memcached=none", "--events"];
    let words = [&words[..], &SHORT].concat();
    let run = report(&words);
    let rows = run["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["operation"].as_str()).collect();
    let wanted = ["put+remove unheard", "put+remove heard", "values unheard", "values heard"];
    assert_eq!(names[3..], wanted);
    for row in &rows[3..] {
        assert!(row["baselines"][0]["ratio"]["median"].as_f64().unwrap() > 0.0, "{row:#}");
    }
    let figures = run["figures"].as_array().unwrap();
    let bytes =
        figures.iter().filter(|one| one["name"].as_str().unwrap().ends_with("bytes per event"));
    assert!(
        bytes.clone().count() == 2
            && bytes.map(|one| one["value"].as_f64()).all(|it| it > Some(0.0))
    );
}

/// What is beside the rows of a report, and that a report compares with itself.
#[track_caller]
fn held_against(arguments: &[&str], rows: usize) -> Vec<String> {
    let run = report(arguments);
    let found = run["rows"].as_array().unwrap();
    assert_eq!(found.len(), rows, "{run:#}");
    let mut names = Vec::new();
    for row in found {
        for baseline in row["baselines"].as_array().unwrap() {
            assert!(baseline["ratio"]["median"].as_f64().unwrap() > 0.0, "{row:#}");
            names.push(baseline["name"].as_str().unwrap().to_owned());
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::write(&path, run.to_string()).unwrap();
    let file = path.to_str().unwrap();
    let compared = output_of("perigee", &["bench", "compare", file, file]);
    assert_eq!(compared.status.code(), Some(0), "{}", text(&compared.stderr));
    names.sort();
    names.dedup();
    names
}

const SHORT: [&str; 3] = ["--duration=60ms", "--rounds=2", "--any-noise"];

#[test]
fn store_rows_are_held_against_this_machine_on_either_route() {
    let common = ["store", "--baseline", "--pool=16MiB", "--size=1MiB", "--batch=4"];
    for (route, wanted) in
        [("--route=auto", &["streaming copy"][..]), ("--route=tcp", &["bare pump", "cold memcpy"])]
    {
        let words = [&common[..], &SHORT, &[route]].concat();
        assert_eq!(held_against(&words, 3), wanted);
    }
}

#[test]
fn engine_rows_are_held_against_this_machine() {
    let words = [&["engine", "--buffer=8MiB"][..], &SHORT].concat();
    let wanted = ["bare pump", "cold memcpy", "polling ping-pong"];
    assert_eq!(held_against(&words, 6), wanted);
}

#[test]
fn the_machine_is_measured_part_by_part() {
    let small = ["machine", "--memory=16MiB", "--keys=2000", "--allocations=2000"];
    let words = [&small[..], &SHORT].concat();
    // Two plain copies, five sizes each way, four of the pump and a ping-pong, six mixes, three
    // calls, two halves of a rebuild, two records, three calls about keys on a disk alone.
    let rows = 2 + 10 + 5 + 6 + 3 + 2 + 2 + 3;
    assert_eq!(held_against(&words, rows), ["cold memcpy", "streaming copy"]);
    refused(&["bench", "machine", "--what=rdma"], 2, "--device");
}

#[test]
fn operations_at_a_rate_begin_on_time() {
    let words =
        ["nic", "--transport=tcp", "--size=4k", "--buffer=1MiB", "--rate=100", "--duration=500ms"];
    let run = report(&words);
    for row in run["rows"].as_array().unwrap().iter().filter(|row| row["nic"] == "total") {
        let count = row["iterations"].as_u64().unwrap();
        assert!((1..=50).contains(&count), "{row:#}");
    }
}

#[test]
fn a_trace_is_replayed_and_its_hits_are_those_of_its_prefixes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    // The second request finds three blocks, the third finds four.
    std::fs::write(
        &path,
        "{\"hash_ids\": [1, 2, 3]}\n{\"hash_ids\": [1, 2, 3, 4]}\n{\"hash_ids\": [1, 2, 3, 4, 5]}\n",
    )
    .unwrap();
    let run = report(&["trace", "--trace", path.to_str().unwrap(), "--threads=1", "--pool=24MiB"]);
    assert_eq!(run["figures"][0]["name"], "hit rate");
    let rate = run["figures"][0]["value"].as_f64().unwrap();
    assert!((rate - 7.0 / 12.0).abs() < 1e-9, "{rate}");
    let corrupt =
        run["figures"].as_array().unwrap().iter().find(|one| one["name"] == "corrupt blocks");
    assert_eq!(corrupt.unwrap()["value"], 0.0);
}

#[test]
fn two_reports_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name).to_string_lossy().into_owned();
        let run =
            report(&["nic", "--transport=shm", "--iterations=20", "--size=4k", "--buffer=1MiB"]);
        std::fs::write(&path, run.to_string()).unwrap();
        path
    };
    let (before, after) = (file("a.json"), file("b.json"));
    let output = output_of("perigee", &["bench", "compare", &before, &after]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("write 4 KiB"));
    let words = ["bench", "compare", "--format", "json", &before, &after];
    let output = output_of("perigee", &words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let comparison: Value = text(&output.stdout).parse().unwrap();
    assert_eq!(comparison["rows"].as_array().unwrap().len(), 4);
}

#[test]
fn rows_of_cards_and_their_total_are_of_the_same_operations() {
    for flags in [
        &["--iterations=5"][..],
        &["--iterations=5", "--verify", "--operation=mixed"],
        &["--duration=0.3s", "--depth=1"],
    ] {
        let mut words = vec!["nic", "--size=64k", "--buffer=4MiB", "--transport=tcp"];
        words.extend(flags);
        let run = report(&words);
        let rows = run["rows"].as_array().unwrap();
        for pair in rows.chunks(2) {
            assert_eq!((&pair[0]["nic"], &pair[1]["nic"]), (&"lo".into(), &"total".into()));
            for field in ["iterations", "seconds", "operation"] {
                assert_eq!(pair[0][field], pair[1][field], "{flags:?} {field}");
            }
        }
        assert!(run["settings"]["duration"].as_str().unwrap().ends_with('s'));
    }
}

#[test]
fn what_cannot_be_run_is_refused_in_one_line() {
    refused(&["bench"], 2, "No tool");
    refused(&["bench", "nik"], 2, "`nic`");
    refused(&["bench", "nic", "--size=0"], 2, "size");
    refused(&["bench", "nic", "--device=no_such_device"], 2, "no_such_device");
    refused(&["bench", "nic", "--role=initiator"], 2, "--peer");
    refused(&["bench", "nic", "--role=initiator", "--peer=127.0.0.1:1"], 69, "127.0.0.1:1");
    refused(
        &["bench", "nic", "--transport=shm", "--role=initiator", "--peer=nowhere"],
        2,
        "nowhere",
    );
    refused(&["bench", "store", "--master=127.0.0.1:1"], 69, "127.0.0.1:1");
    refused(&["bench", "master", "--master=127.0.0.1:1", "--events"], 2, "--events");
    for tool in ["store", "master"] {
        let words = ["bench", tool, "--master", "nonsense"];
        refused(&words, 2, "write host:port");
    }
    refused(&["bench", "nic", "--name", "x"], 2, "--role");
    refused(&["bench", "nic", "--role", "target", "--peer", "x:1"], 2, "--role initiator");
    refused(&["bench", "trace"], 2, "--trace");
    refused(&["bench", "compare", "a.json"], 2, "AFTER.json");
}
