//! The Go packages on both libraries: formatted, vetted, their tests and their example against a
//! real cluster.

use crate::compiler::succeed;
use crate::library::{ENGINE, source};
use perigee_tests::cluster::{Master, Node};
use std::path::Path;
use std::process::Command;

/// Runs `go` or a tool of it in the folder of the packages; what it printed.
#[track_caller]
fn go(packed: &Path, cache: &Path, words: &[&str], master: &str) -> String {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(source("go"));
    // The packages need no other module, so nothing is fetched.
    command.env("GOPROXY", "off").env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local");
    command.env("GOCACHE", cache).env("PKG_CONFIG_PATH", packed.join("lib/pkgconfig"));
    succeed(command.env("PERIGEE_TEST_MASTER", master))
}

#[test]
fn the_go_packages_are_vetted_and_move_objects_and_bytes() {
    if Command::new("go").arg("version").output().is_err() {
        println!("the Go packages are not played: there is no go here; `make setup` installs it");
        return;
    }
    let master = Master::start(&[]);
    let _node = Node::start(&master, 64 << 20);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (packed, cache) = (folder.path().join("c"), folder.path().join("cache"));
    let built = ENGINE.file();
    let built = built.parent().expect("a library lies in a folder");
    succeed(Command::new(source("tools/pack-c.sh")).arg(built).arg(&packed));
    let run = |words: &[&str]| go(&packed, &cache, words, &master.address());
    assert_eq!(run(&["gofmt", "-l", "."]), "", "these files are not formatted");
    run(&["go", "vet", "./..."]);
    let tested = run(&["go", "test", "-count=1", "-v", "./..."]);
    assert!(!tested.contains("--- SKIP"), "{tested}");
    let said = run(&["go", "run", "./examples/basic", &master.address()]);
    assert_eq!(said, "read \"hello from Go\"\n");
}
