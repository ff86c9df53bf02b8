//! The headers say what the libraries are: the C compiler compares each declaration with the Rust
//! function behind it, and layouts with what it makes of them itself.

use crate::compiler::{Programs, succeed};
use crate::library::{ENGINE, Library, STORE, source};
use mooncake_store::Placement;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::mem::offset_of;
use std::process::Command;
use transfer_engine::{BufferRange, NicLoad, NotifyEntry, RequestEntry, StatusEntry};

/// Rust's types as C has them.
const TYPES: [(&str, &str); 23] = [
    ("()", "void"),
    ("Handle", "void *"),
    ("c_int", "int"),
    ("i32", "int32_t"),
    ("i64", "int64_t"),
    ("u64", "uint64_t"),
    ("usize", "size_t"),
    ("*mut c_int", "int *"),
    ("*mut i64", "int64_t *"),
    ("*mut usize", "size_t *"),
    ("*const usize", "const size_t *"),
    ("*mut c_char", "char *"),
    ("*const c_char", "const char *"),
    ("*const *const c_char", "const char **"),
    ("*mut c_void", "void *"),
    ("*const c_void", "const void *"),
    ("*mut *mut c_void", "void **"),
    ("*const *mut c_void", "void **"),
    ("*mut BufferRange", "struct buffer_entry *"),
    ("*mut RequestEntry", "struct transfer_request *"),
    ("*mut StatusEntry", "struct transfer_status *"),
    ("*mut NicLoad", "struct nic_load_stat *"),
    ("*const Placement", "const struct mooncake_replicate_config *"),
];
const NOTIFY: [(&str, &str); 2] =
    [("NotifyEntry", "struct notify_msg"), ("*mut NotifyEntry", "struct notify_msg *")];

/// A Rust function of a library: its name, parameters and answer as C has them.
struct Exported {
    name: String,
    parameters: Vec<&'static str>,
    answer: &'static str,
}

fn exported(library: Library) -> Vec<Exported> {
    let folder = source(library.package).join("src/library");
    let files = std::fs::read_dir(folder).expect("the functions lie in src/library");
    let mut functions = Vec::new();
    for file in files {
        let path = file.expect("a folder can be read").path();
        let text = std::fs::read_to_string(path).expect("a source can be read");
        let heads = text.split("extern \"C\" fn ").skip(1).zip(text.split("extern \"C\" fn "));
        let public = heads.filter(|(_, before)| {
            let before = before.trim_end().trim_end_matches("unsafe").trim_end();
            before.ends_with("pub")
        });
        functions.extend(public.map(|(head, _)| function(head)));
    }
    functions
}

/// Reads what follows `extern "C" fn`.
fn function(text: &str) -> Exported {
    let head = text.split(" {\n").next().expect("a function has a body");
    let (name, rest) = head.split_once('(').expect("a function has parameters");
    let (parameters, answer) = rest.rsplit_once(')').expect("parameters end");
    let parameters = parameters.split(',').map(str::trim).filter(|it| !it.is_empty());
    let of = |parameter: &str| {
        let (_, rust) = parameter.split_once(':').expect("a parameter has a type");
        c_type(rust.trim())
    };
    Exported {
        name: name.to_owned(),
        parameters: parameters.map(of).collect(),
        answer: c_type(answer.trim().strip_prefix("-> ").unwrap_or("()")),
    }
}

fn c_type(rust: &str) -> &'static str {
    let mut known = TYPES.iter().chain(&NOTIFY);
    let found = known.find(|(name, _)| *name == rust);
    found.unwrap_or_else(|| unreachable!("a type that no header has: {rust}")).1
}

/// Names of the functions that a header declares.
pub(crate) fn declared(library: Library) -> BTreeSet<String> {
    let path = library.include().join(library.header);
    let text = std::fs::read_to_string(path).expect("the header can be read");
    let mut bare = String::new();
    let mut rest = text.as_str();
    while let Some((code, comment)) = rest.split_once("/*") {
        bare += code;
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    bare += rest;
    let code: Vec<&str> = bare.lines().filter(|line| !line.starts_with('#')).collect();
    let code = code.join(" ");
    let names = code.split(';').filter_map(|item| {
        let head = item.split_once('(')?.0;
        let name = head.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        Some(name.to_owned())
    });
    names.collect()
}

fn compare(library: Library) {
    let functions = exported(library);
    let names: BTreeSet<String> = functions.iter().map(|it| it.name.clone()).collect();
    assert_eq!(declared(library), names, "{} and the crate", library.header);
    let mut text = format!("#include \"{}\"\n#include \"{0}\"\n", library.header);
    for Exported { name, parameters, answer } in &functions {
        let parameters = if parameters.is_empty() { vec!["void"] } else { parameters.clone() };
        let _ = writeln!(text, "extern {answer} {name}({});", parameters.join(", "));
    }
    text += "int main(void) {\n    volatile uintptr_t at;\n";
    for Exported { name, .. } in &functions {
        let _ = writeln!(text, "    at = (uintptr_t){name};");
    }
    text += "    return !at;\n}\n";
    // The compiler refuses two declarations that differ, and the linker what is not there.
    Programs::each_way(library, |programs| {
        succeed(&mut Command::new(programs.build_text("declarations", &text)));
    });
}

#[test]
fn the_engine_header_declares_the_functions_of_the_crate() {
    compare(ENGINE);
}

#[test]
fn the_store_header_declares_the_functions_of_the_crate() {
    compare(STORE);
}

/// Sizes and offsets as the C compiler sees them: `(type, fields)` in, one number after the other
/// out.
fn layout_of(library: Library, types: &[(&str, &[&str])]) -> Vec<usize> {
    let mut text =
        format!("#include <stdio.h>\n#include \"{}\"\nint main(void) {{\n", library.header);
    for (name, fields) in types {
        let _ = writeln!(text, "    printf(\"%zu\\n\", sizeof(struct {name}));");
        for field in *fields {
            let _ = writeln!(text, "    printf(\"%zu\\n\", offsetof(struct {name}, {field}));");
        }
    }
    text += "    return 0;\n}\n";
    let mut numbers = Vec::new();
    Programs::each_way(library, |programs| {
        numbers.push(succeed(&mut Command::new(programs.build_text("layout", &text))));
    });
    numbers[0].lines().map(|line| line.parse().expect("a number")).collect()
}

#[test]
fn structures_of_the_engine_are_laid_out_as_in_its_header() {
    let types: [(&str, &[&str]); 5] = [
        ("transfer_request", &["opcode", "source", "target_id", "target_offset", "length"]),
        ("transfer_status", &["status", "transferred_bytes"]),
        ("notify_msg", &["name", "msg"]),
        ("buffer_entry", &["addr", "length"]),
        ("nic_load_stat", &["device_name", "inflight_bytes", "ewma_bandwidth_bps"]),
    ];
    let expected = [
        size_of::<RequestEntry>(),
        offset_of!(RequestEntry, opcode),
        offset_of!(RequestEntry, source),
        offset_of!(RequestEntry, target_id),
        offset_of!(RequestEntry, target_offset),
        offset_of!(RequestEntry, length),
        size_of::<StatusEntry>(),
        offset_of!(StatusEntry, status),
        offset_of!(StatusEntry, transferred_bytes),
        size_of::<NotifyEntry>(),
        offset_of!(NotifyEntry, name),
        offset_of!(NotifyEntry, msg),
        size_of::<BufferRange>(),
        offset_of!(BufferRange, addr),
        offset_of!(BufferRange, length),
        size_of::<NicLoad>(),
        offset_of!(NicLoad, device_name),
        offset_of!(NicLoad, inflight_bytes),
        offset_of!(NicLoad, ewma_bandwidth_bps),
    ];
    assert_eq!(layout_of(ENGINE, &types), expected);
}

#[test]
fn the_placement_is_laid_out_as_in_its_header() {
    let fields = [
        "replica_num",
        "with_soft_pin",
        "with_hard_pin",
        "preferred_segments",
        "preferred_segments_count",
    ];
    let expected = [
        size_of::<Placement>(),
        offset_of!(Placement, replica_num),
        offset_of!(Placement, with_soft_pin),
        offset_of!(Placement, with_hard_pin),
        offset_of!(Placement, preferred_segments),
        offset_of!(Placement, preferred_segments_count),
    ];
    assert_eq!(layout_of(STORE, &[("mooncake_replicate_config", &fields)]), expected);
}

#[test]
fn a_library_is_found_by_the_name_that_programs_have_and_stays_loaded() {
    for library in [ENGINE, STORE] {
        let entries = succeed(Command::new("readelf").arg("-dW").arg(library.file()));
        let has = |words: [&str; 2]| {
            entries.lines().any(|line| words.iter().all(|word| line.contains(word)))
        };
        assert!(has(["SONAME", &format!("[lib{}.so]", library.name)]), "{entries}");
        assert!(has(["FLAGS_1", "NODELETE"]), "{entries}");
        for stranger in ["libibverbs", "libcuda", "libpython"] {
            assert!(!has(["NEEDED", stranger]), "{entries}");
        }
    }
}

#[test]
fn headers_are_good_cplusplus() {
    let works = |text: &str| {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let file = folder.path().join("probe.cpp");
        std::fs::write(&file, text).expect("a file can be written");
        let mut command = Command::new("c++");
        command.args(["-std=c++17", "-Wall", "-Werror", "-fsyntax-only"]);
        for library in [ENGINE, STORE] {
            command.arg(format!("-I{}", library.include().display()));
        }
        command.arg(file).output().is_ok_and(|output| output.status.success())
    };
    if works("int main() {}\n") {
        let text = "#include \"transfer_engine_c.h\"\n#include \"store_c.h\"\nint main() {}\n";
        assert!(works(text));
    } else {
        println!("there is no C++ compiler here");
    }
}
