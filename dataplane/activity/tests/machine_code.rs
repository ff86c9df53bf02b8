//! The record path in machine code. Invariant: no atomic read-modify-write, which would cost eight
//! times as much.

use perigee_activity::{Slot, Stages};
use std::process::Command;

/// The path on its own, with a name that can be found.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn perigee_test_record(slot: &Slot, bytes: u64, latency_ns: u64) {
    slot.record(bytes, &Stages::whole(latency_ns, 7));
}

/// The same with an atomic addition: what the test must find.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn perigee_test_locked(cell: &std::sync::atomic::AtomicU64) -> u64 {
    cell.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

#[allow(clippy::unwrap_used, reason = "a test's own steps")]
fn code_of(symbol: &str) -> Option<String> {
    let output = Command::new("objdump")
        .args(["--disassemble", "--no-show-raw-insn", "--demangle"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let begin = text.find(&format!("<{symbol}>:"))?;
    let code = &text[begin..];
    Some(code[..code.find("\n\n").unwrap_or(code.len())].to_owned())
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_record_has_no_locked_instruction() {
    std::hint::black_box((perigee_test_record as *const (), perigee_test_locked as *const ()));
    let Some(locked) = code_of("perigee_test_locked") else {
        eprintln!("SKIP: no objdump");
        return;
    };
    let is_locked = |code: &str| code.contains("lock ") || code.contains("xchg");
    assert!(is_locked(&locked), "{locked}");
    let record = code_of("perigee_test_record").expect("the test's own function");
    assert!(!is_locked(&record), "{record}");
    // Inlined as a whole, or through functions of its own, which are then looked at as well.
    for called in record.split("call").skip(1) {
        let name = called.split(['<', '>']).nth(1).unwrap_or("");
        let code = code_of(name).unwrap_or_default();
        assert!(!is_locked(&code), "{name}: {code}");
    }
}
