//! The examples of the book's page about C do what the page says.

use crate::compiler::{Programs, run};
use crate::library::{ENGINE, STORE, source};
use perigee_tests::cluster::{Master, Node};

/// The example of the page that includes a header.
fn example(header: &str) -> String {
    let page = std::fs::read_to_string(source("docs/src/c.md")).expect("the page can be read");
    let mut blocks = page.split("```c\n").skip(1).filter_map(|block| block.split("```").next());
    let found = blocks.find(|block| block.contains(&format!("#include <{header}>")));
    found.expect("the page has an example").to_owned()
}

#[test]
fn the_engine_example_of_the_page_plays() {
    Programs::each_way(ENGINE, |programs| {
        run(&programs.build_text("example", &example(ENGINE.header)), &[]);
    });
}

#[test]
fn the_store_example_of_the_page_plays() {
    let master = Master::start(&[]);
    let _node = Node::start(&master, 64 << 20);
    Programs::each_way(STORE, |programs| {
        let program = programs.build_text("example", &example(STORE.header));
        run(&program, &[&master.address()]);
    });
}
