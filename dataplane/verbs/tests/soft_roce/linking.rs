//! What this binary needs to start.

use std::process::Command;

#[test]
fn a_binary_with_the_real_verbs_does_not_need_their_library() {
    let own = std::env::current_exe().unwrap();
    let output = Command::new("readelf").arg("-d").arg(own).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("(NEEDED)") && text.contains("libc.so"), "{text}");
    for library in ["ibverbs", "rdmacm", "mlx5", "cuda"] {
        assert!(!text.contains(library), "{text}");
    }
}
