//! The examples of the book's page about C do what the page says.

use crate::compiler::{Programs, run, succeed};
use crate::library::{ENGINE, STORE, source};
use perigee_tests::cluster::{Master, Node};
use std::process::Command;

#[test]
fn the_compile_line_of_the_page_builds_a_program() {
    let tool = |arguments: &[&str]| Command::new(arguments[0]).args(&arguments[1..]).output();
    if tool(&["pkg-config", "--version"]).is_err() {
        println!("there is no pkg-config here");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder can be made");
    let packed = folder.path().join("c");
    let built = ENGINE.file();
    let built = built.parent().expect("a library lies in a folder");
    succeed(Command::new(source("tools/pack-c.sh")).arg(built).arg(&packed));
    let page = std::fs::read_to_string(source("docs/src/c.md")).expect("the page can be read");
    for (library, name) in [(ENGINE, "engine"), (STORE, "store")] {
        std::fs::write(folder.path().join(format!("{name}.c")), example(library.header))
            .expect("a file can be written");
        let line = page.lines().find(|line| line.starts_with(&format!("cc {name}.c ")));
        let mut shell = Command::new("sh");
        shell.args(["-ec", line.expect("the page has a compile line")]).current_dir(folder.path());
        succeed(shell.env("PKG_CONFIG_PATH", packed.join("lib/pkgconfig")));
    }
    // Without a word about where the library is.
    let said = succeed(&mut Command::new(folder.path().join("engine")));
    assert_eq!(said, "done\n");
}

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
