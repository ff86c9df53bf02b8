//! The planted faults still fit the code. Whether each is found is for `make planted`, which builds
//! the code with them.

use std::path::Path;
use std::process::Command;

/// All that there are: without its fault a promise is not proved.
const FAULTS_MIN: usize = 168;

#[test]
fn the_planted_faults_apply_each_alone_and_all_together() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../planted/play.py");
    let mut command = Command::new("python3");
    let output = command.arg(script).arg("--check").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let found = String::from_utf8_lossy(&output.stdout);
    let count: usize = found.split(' ').next().unwrap().parse().unwrap();
    assert!(count >= FAULTS_MIN, "{found}");
}
