//! Links the library under the name that programs look for. It is never unloaded: its threads run
//! until the process ends.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for argument in ["-soname,libmooncake_store.so", "-z,nodelete"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    }
}
