//! TCP connections of a process that is about to be killed: its kernel may close them a little
//! after the process is gone, because a ring lets go of its files in the background.

use std::collections::HashSet;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
/// How `/proc/net/tcp` writes that a connection is open.
const ESTABLISHED: &str = "01";

/// The far ends of a process's connections, each as its own and its peer's address.
pub(crate) fn far_ends(process: u32) -> HashSet<(String, String)> {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let sockets: HashSet<String> = descriptors
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())
        })
        .collect();
    let own = open_connections().into_iter().filter(|row| sockets.contains(&row.inode));
    own.map(|row| (row.peer, row.own)).collect()
}

/// Waits until none of these ends is taken for open.
pub(crate) fn await_closed(ends: &HashSet<(String, String)>) {
    let end = Instant::now() + LONG;
    let is_open = |row: Connection| ends.contains(&(row.own, row.peer));
    while open_connections().into_iter().any(is_open) {
        assert!(Instant::now() < end, "a killed process keeps its connections");
        std::thread::yield_now();
    }
}

struct Connection {
    own: String,
    peer: String,
    inode: String,
}

fn open_connections() -> Vec<Connection> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, own, peer, state, _, _, _, _, _, inode, ..] = fields.as_slice() else {
            return None;
        };
        let [own, peer, inode] = [own, peer, inode].map(str::to_owned);
        (state == ESTABLISHED).then_some(Connection { own, peer, inode })
    };
    table.lines().skip(1).filter_map(row).collect()
}
