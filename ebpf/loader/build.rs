//! Builds the probes with their own compiler and hands the object to the crate. The object is empty
//! without that compiler and with `PERIGEE_WITHOUT_PROBES=1`; the program says so then.

use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS_MISSING: i32 = 3;

fn main() {
    let ebpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for watched in ["build.sh", "probes/src", "probes/Cargo.toml", "shared/src"] {
        println!("cargo::rerun-if-changed={}", ebpf.join(watched).display());
    }
    for variable in ["PERIGEE_WITHOUT_PROBES", "PERIGEE_BPF_TOOLS", "BPF_RUSTC"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let object = out.join("probes.o");
    if std::env::var_os("PERIGEE_WITHOUT_PROBES").is_some_and(|value| value == "1") {
        return leave_empty(&object);
    }
    let status = Command::new(ebpf.join("build.sh"))
        .arg(&object)
        .env("CARGO_TARGET_DIR", target_dir(&out))
        .status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(TOOLS_MISSING)) => {
            println!(
                "cargo::warning=Built without eBPF probes: run `ebpf/build.sh --install` for their compiler, \
                 or set PERIGEE_WITHOUT_PROBES=1"
            );
            // Cargo runs this script at each build as long as a watched file does not exist, so
            // that the probes are built as soon as their compiler is there.
            println!("cargo::rerun-if-changed={}", out.join("never-there").display());
            leave_empty(&object);
        }
        Ok(code) => println!("cargo::error=ebpf/build.sh ended with {code:?}; run it by hand"),
        Err(error) => println!("cargo::error=Cannot run ebpf/build.sh: {error}"),
    }
}

fn leave_empty(object: &Path) {
    if let Err(error) = std::fs::write(object, []) {
        println!("cargo::error=Cannot write {}: {error}", object.display());
    }
}

/// `target`, from `target/PROFILE/build/CRATE/out`: all profiles share one build of the probes.
fn target_dir(out: &Path) -> PathBuf {
    out.ancestors().nth(4).unwrap_or(out).to_owned()
}
