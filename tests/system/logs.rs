//! Logs that cannot be written. Invariant: a full disk costs the log, never the service.

use std::fs::OpenOptions;

use perigee_tests::cluster::{Master, Node};
use perigee_tests::wire::Connection;

#[test]
fn a_full_disk_under_the_log_does_not_stop_the_master() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut master = Master::start_into(&full);
    let _node = Node::start(&master, 16 << 20);
    // Something worth a line in the log: a peer that speaks another protocol.
    Connection::open(master.rpc).unwrap().send(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(Connection::greeted(master.rpc).exist(1, &["nothing"]), Ok(vec![0]));
    assert!(master.is_serving());
    master.program.stop();
}
