//! C programs with stores, against a master and a node.

use crate::compiler::{Programs, run};
use crate::library::STORE;
use perigee_tests::cluster::{Master, Node};

const LENT: u64 = 64 << 20;

#[test]
fn a_c_program_puts_gets_asks_and_removes() {
    let master = Master::start(&[]);
    let _node = Node::start(&master, LENT);
    Programs::each_way(STORE, |programs| {
        run(&programs.build("store"), &[&master.address()]);
    });
}

#[test]
fn memory_that_a_c_program_lends_leaves_the_cluster_with_it() {
    let master = Master::start(&[]);
    Programs::each_way(STORE, |programs| {
        run(&programs.build("store_lender"), &[&master.address()]);
        assert_eq!(master.segment_names(), Vec::<String>::new(), "it left at its exit");
    });
}

#[test]
fn wrong_calls_of_a_store_answer_errors_and_say_why() {
    let master = Master::start(&[]);
    let _node = Node::start(&master, LENT);
    Programs::each_way(STORE, |programs| {
        let log = run(&programs.build("store_misuse"), &[&master.address()]);
        for words in [
            "mooncake_store_put() failed: store is NULL",
            "mooncake_store_setup() failed: protocol \"pigeon\"",
            "mooncake_store_batch_put_from() failed: keys is NULL",
        ] {
            assert!(log.contains(words), "no line says {words:?}:\n{log}");
        }
    });
}
