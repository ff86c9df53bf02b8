//! A real Mooncake engine and ours move bytes to each other, both ways. Needs a Python with the
//! real wheel, named by `PERIGEE_REAL_MOONCAKE_PYTHON`; `tests/run.sh` installs one and runs these
//! with it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use perigee_engine::{
    Direction, EngineError, EngineOptions, SubmitOptions, TransferEngine, TransferRequest,
};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const BYTES: usize = 6 << 20;

/// The other side: executes commands line by line.
const SCRIPT: &str = r#"
import ctypes, sys
from mooncake.engine import TransferEngine
bytes_ = int(sys.argv[1])
engine = TransferEngine()
code = engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "")
memory = (ctypes.c_ubyte * bytes_)()
address = ctypes.addressof(memory)
ctypes.memset(address, 5, bytes_)
code = code or engine.register_memory(address, bytes_)
print("READY", code, "127.0.0.1:%d" % engine.get_rpc_port(), address, flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "write":
        code = engine.transfer_sync_write(rest[0], address, int(rest[1]), int(rest[2]))
    elif word == "read":
        code = engine.transfer_sync_read(rest[0], address, int(rest[1]), int(rest[2]))
    elif word == "fill":
        code = 0
        ctypes.memset(address, int(rest[0]), bytes_)
    else:
        code = 0 if bytes(memory) == bytes([int(rest[0])]) * bytes_ else 1
    print("DONE", code, flush=True)
"#;

struct Real {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    name: String,
    address: u64,
}

impl Real {
    fn start() -> Self {
        let python = std::env::var("PERIGEE_REAL_MOONCAKE_PYTHON").expect(
            "set PERIGEE_REAL_MOONCAKE_PYTHON to a Python with Mooncake's wheel, or run tests/run.sh",
        );
        let mut child = Command::new(python)
            .args(["-c", SCRIPT, &BYTES.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut real = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            name: String::new(),
            address: 0,
        };
        let ready = real.line("READY");
        assert_eq!(ready[0], "0");
        real.name.clone_from(&ready[1]);
        real.address = ready[2].parse().unwrap();
        real
    }

    fn line(&mut self, begins: &str) -> Vec<String> {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the real engine ended");
            if let Some(rest) = line.strip_prefix(begins) {
                return rest.split_whitespace().map(str::to_owned).collect();
            }
        }
    }

    fn ask(&mut self, words: &str) -> i64 {
        writeln!(self.input, "{words}").unwrap();
        self.line("DONE")[0].parse().unwrap()
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ours(serves: bool) -> TransferEngine {
    let variable =
        |name: &str| (serves && name == "PERIGEE_SERVE_MOONCAKE").then(|| "1".to_owned());
    let options = EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "tcp", "", variable);
    TransferEngine::start(options.unwrap()).unwrap()
}

#[test]
#[ignore = "needs Mooncake's wheel; tests/run.sh runs it"]
fn our_engine_writes_to_and_reads_from_a_real_one() {
    let mut real = Real::start();
    let engine = ours(false);
    let mut memory = vec![8u8; BYTES];
    let mut request = TransferRequest {
        direction: Direction::Write,
        local: memory.as_mut_ptr() as u64,
        remote: real.address,
        bytes: BYTES as u64,
    };
    let options = SubmitOptions::default();
    // SAFETY: `memory` outlives the calls.
    unsafe {
        engine.transfer(&real.name, &[request], &options).unwrap();
        assert_eq!(real.ask("check 8"), 0);
        assert_eq!(real.ask("fill 77"), 0);
        request.direction = Direction::Read;
        engine.transfer(&real.name, &[request], &options).unwrap();
        request.remote += 1;
        let refused = engine.transfer(&real.name, &[request], &options).unwrap_err();
        assert!(matches!(refused, EngineError::RemoteAddress { .. }), "{refused}");
    }
    assert!(memory.iter().all(|byte| *byte == 77));
    engine.probe(&real.name).unwrap();
    engine.close();
}

#[test]
#[ignore = "needs Mooncake's wheel; tests/run.sh runs it"]
fn a_real_engine_writes_to_and_reads_from_ours_if_we_let_it() {
    let mut real = Real::start();
    let engine = ours(true);
    let mut memory = vec![0u8; BYTES];
    let address = memory.as_mut_ptr() as u64;
    // SAFETY: `memory` outlives the engine.
    unsafe { engine.register(address, BYTES as u64, "*") }.unwrap();
    let name = engine.local_name().to_owned();
    assert_eq!(real.ask(&format!("write {name} {address} {BYTES}")), 0);
    assert!(memory.iter().all(|byte| *byte == 5));
    memory.fill(9);
    assert_eq!(real.ask(&format!("read {name} {address} {BYTES}")), 0);
    assert_eq!(real.ask("check 9"), 0);
    assert_ne!(real.ask(&format!("write {name} {} {BYTES}", address + 1)), 0);
    assert!(memory.iter().all(|byte| *byte == 9));
    engine.close();
}
