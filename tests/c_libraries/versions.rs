//! What the files export: the functions of the headers, each with the version since which it is
//! there. Programs that were linked without versions run.

use crate::compiler::succeed;
use crate::headers::declared;
use crate::library::{ENGINE, Library, STORE};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

/// The functions of a map, by version.
fn mapped(library: Library) -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(library.map()).expect("the map can be read");
    let (_, code) = text.split_once("*/").expect("a map begins with a comment");
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in code.split('}') {
        let Some((name, body)) = node.split_once('{') else { continue };
        // What precedes is the end of the node before: `PERIGEE_1;` or `;`.
        let name = name.rsplit(';').next().unwrap_or_default().trim().to_owned();
        let body = body.split("local:").next().unwrap_or_default().replace("global:", "");
        let functions = body.split(';').map(str::trim).filter(|it| !it.is_empty());
        versions.insert(name, functions.map(str::to_owned).collect());
    }
    versions
}

/// What the dynamic symbols of the file define: `NAME@@VERSION`.
fn exported(library: Library) -> BTreeSet<String> {
    let mut readelf = Command::new("readelf");
    let text = succeed(readelf.args(["--dyn-syms", "-W"]).arg(library.file()));
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // A linker may define the names of the versions, as absolute symbols.
    let is_defined = |row: &Vec<&str>| row.len() >= 8 && !["UND", "ABS", "Ndx"].contains(&row[6]);
    rows.filter(is_defined).map(|row| row[7].to_owned()).collect()
}

#[test]
fn a_library_exports_the_functions_of_its_header_with_their_versions_and_nothing_else() {
    for library in [ENGINE, STORE] {
        let versions = mapped(library);
        let functions: BTreeSet<String> = versions.values().flatten().cloned().collect();
        assert_eq!(functions, declared(library), "map and header of {}", library.name);
        let named = versions.iter().flat_map(|(version, functions)| {
            functions.iter().map(move |name| format!("{name}@@{version}"))
        });
        assert_eq!(exported(library), named.collect(), "{}", library.name);
    }
}

#[test]
fn the_first_version_has_what_it_was_published_with() {
    let counts = [ENGINE, STORE].map(|library| mapped(library)["PERIGEE_1"].len());
    assert_eq!(counts, [27, 19], "functions that are added get a version of their own");
}

/// A library of the same name and functions as before there were versions.
fn unversioned(library: Library, folder: &std::path::Path) {
    let mut text = String::new();
    for name in declared(library) {
        let _ = writeln!(text, "void {name}(void) {{}}");
    }
    let source = folder.join("unversioned.c");
    std::fs::write(&source, text).expect("a file can be written");
    let file = format!("lib{}.so", library.name);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", &format!("-Wl,-soname,{file}"), "-o"]).arg(folder.join(&file));
    succeed(cc.arg(source));
}

#[test]
fn a_program_that_was_linked_before_there_were_versions_runs() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let text = "#include <stdio.h>\n#include <transfer_engine_c.h>\nint main(void) {\n\
        if (freeBatchID(NULL, 1) == 0) return 1;\n\
        puts(\"refused\");\n}\n";
    let (source, program) = (folder.path().join("old.c"), folder.path().join("old"));
    std::fs::write(&source, text).expect("a file can be written");
    unversioned(ENGINE, folder.path());
    let mut cc = Command::new("cc");
    cc.arg(format!("-I{}", ENGINE.include().display())).arg(source).arg("-o").arg(&program);
    succeed(cc.arg(format!("-L{}", folder.path().display())).arg("-ltransfer_engine"));
    let needs = succeed(Command::new("readelf").args(["-VW"]).arg(&program));
    assert!(!needs.contains("PERIGEE"), "{needs}");
    let library = ENGINE.file();
    let beside = library.parent().expect("a library lies in a folder");
    let said = succeed(Command::new(&program).env("LD_LIBRARY_PATH", beside));
    assert_eq!(said, "refused\n");
}
