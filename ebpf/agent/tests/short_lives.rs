//! Processes that live shorter than a turn of the agent, as real processes.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_activity::{Direction, PageDirectory, Route, SlotKey, Stages, record};
use perigee_agent::{Agent, AgentOptions, Snapshot};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = "PERIGEE_ACTIVITY_DIR";
/// How the child ends: in order, or killed.
const ENDING: &str = "PERIGEE_TEST_ENDING";
const OPERATIONS: u64 = 200;
const DEADLINE: Duration = Duration::from_secs(30);

fn start_agent(folder: &Path) -> Agent {
    Agent::start(AgentOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        activity: PageDirectory::new(folder.join("pages")),
        state: Some(folder.join("state")),
        ebpf: false,
        ..AgentOptions::default()
    })
    .unwrap()
}

fn counted(agent: &Agent) -> u64 {
    let url = format!("http://{}/snapshot.json", agent.address().unwrap());
    let text = ureq::get(url).call().unwrap().body_mut().read_to_string().unwrap();
    let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
    snapshot.flows.iter().map(|flow| flow.operations).sum()
}

fn wait_for(agent: &Agent, wanted: u64) {
    let begun = Instant::now();
    while counted(agent) != wanted {
        let now = counted(agent);
        assert!(now <= wanted, "{now} of {wanted} counted");
        assert!(begun.elapsed() < DEADLINE, "{now} of {wanted} counted");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn every_operation_of_processes_that_live_shorter_than_a_turn_is_counted_once() {
    const NAME: &str = "every_operation_of_processes_that_live_shorter_than_a_turn_is_counted_once";
    if let Some(ending) = std::env::var_os(ENDING) {
        let key = SlotKey::new("eth0", Route::Tcp, Direction::Write, SlotKey::CALLER);
        (0..OPERATIONS).for_each(|_| record(key, 4096, &Stages::whole(1000, 0)));
        if ending == "killed" {
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("pages")).unwrap();
    let mut agent = start_agent(folder.path());
    wait_for(&agent, 0);
    let mut wanted = 0;
    for _ in 0..2 {
        for ending in ["in order", "killed", "in order", "killed"] {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", NAME]).env(ENDING, ending);
            child.env(FOLDER, folder.path().join("pages"));
            let _ = child.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            wanted += OPERATIONS;
        }
        wait_for(&agent, wanted);
        // The pages are still there for another agent, and for this one when it starts again.
        agent.stop();
        agent = start_agent(folder.path());
        wait_for(&agent, wanted);
    }
}
