//! Builds the probes with their own compiler and hands the object to the crate. Without that compiler the object is empty,
//! and the loader says so.

use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS_MISSING: i32 = 3;

fn main() {
    let ebpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for watched in ["build.sh", "probes/src", "probes/Cargo.toml", "shared/src"] {
        println!("cargo::rerun-if-changed={}", ebpf.join(watched).display());
    }
    println!("cargo::rerun-if-env-changed=PERIGEE_BPF_TOOLS");
    println!("cargo::rerun-if-env-changed=BPF_RUSTC");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let object = out.join("probes.o");
    let status = Command::new(ebpf.join("build.sh"))
        .arg(&object)
        .env("CARGO_TARGET_DIR", target_dir(&out))
        .status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(TOOLS_MISSING)) => {
            println!(
                "cargo::warning=Built without eBPF probes; `ebpf/build.sh --install` gets their compiler"
            );
            if let Err(error) = std::fs::write(&object, []) {
                println!("cargo::error=Cannot write {}: {error}", object.display());
            }
        }
        Ok(code) => println!("cargo::error=ebpf/build.sh ended with {code:?}; run it by hand"),
        Err(error) => println!("cargo::error=Cannot run ebpf/build.sh: {error}"),
    }
}

/// `target`, from `target/PROFILE/build/CRATE/out`: all profiles share one build of the probes.
fn target_dir(out: &Path) -> PathBuf {
    out.ancestors().nth(4).unwrap_or(out).to_owned()
}
