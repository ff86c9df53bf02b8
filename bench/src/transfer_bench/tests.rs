//! Flags as Mooncake's scripts write them, and the closing line.

use std::sync::atomic::Ordering;
use std::time::Duration;

use perigee_flags::ProgramStart;

use super::*;
use crate::ends::mover::memory::MemoryTarget;
use crate::load::latency::Recorder;
use perigee_schemas::Direction;

fn load_flags(words: &[&str]) -> Result<TransferSettings, BenchError> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    match PROGRAM.load(&words, &ProcessEnvironment::of(&[]))? {
        ProgramStart::Run(settings) => TransferSettings::of(&settings),
        ProgramStart::Print(text) => panic!("{text}"),
    }
}

#[test]
fn the_table_is_sound() {
    assert_eq!(PROGRAM.check(), Vec::<String>::new());
}

#[test]
fn every_flag_of_mooncakes_program_is_known() {
    // From the help text of 0.3.13.post1.
    for name in [
        "auto_discovery",
        "backend",
        "batch_size",
        "block_size",
        "buffer_size",
        "device_name",
        "duration",
        "gpu_id",
        "init_mem",
        "local_server_name",
        "metadata_server",
        "mode",
        "nic_priority_matrix",
        "operation",
        "protocol",
        "report_precision",
        "report_unit",
        "segment_id",
        "threads",
        "use_vram",
    ] {
        assert!(PROGRAM.find(name).is_some(), "{name}");
    }
}

#[test]
fn no_flags_are_mooncakes_defaults() {
    let settings = load_flags(&[]).unwrap();
    assert_eq!(settings.mode, Mode::Initiator);
    assert_eq!(settings.direction, Direction::Read);
    assert_eq!((settings.batch_size, settings.block_bytes), (128, 65_536));
    assert_eq!((settings.threads, settings.buffer_bytes), (12, 1 << 30));
    assert_eq!(settings.span.duration, Duration::from_secs(10));
    assert_eq!((settings.protocol.as_str(), settings.devices.as_str()), ("rdma", "mlx5_2"));
    assert_eq!(settings.metadata, "etcd://192.168.3.77:2379");
}

#[test]
fn every_gflags_spelling_is_read() {
    let settings = load_flags(&[
        "-mode=target",
        "--protocol",
        "tcp",
        "--block_size=4096",
        "-threads",
        "2",
        "--nouse_vram",
        "--auto_discovery",
        "--metadata_server=P2PHANDSHAKE",
        "-v=1",
        "--logtostderr",
        "--report_unit=MiB",
        "--report_precision=4",
        "--noinit_mem",
    ])
    .unwrap();
    assert_eq!(settings.mode, Mode::Target);
    assert_eq!((settings.block_bytes, settings.threads, settings.precision), (4096, 2, 4));
    assert_eq!((settings.metadata.as_str(), settings.devices.as_str()), ("P2PHANDSHAKE", ""));
}

#[test]
fn what_cannot_be_run_says_what_to_do() {
    for (words, part) in [
        (&["--block_size=0"][..], "block_size"),
        (&["--operation=erase"], "read, write"),
        (&["--buffer_size=1048576"], "--buffer_size=100663296"),
        (&["--segment=x"], "segment_id"),
        (&["--nic_priority_matrix=/no/such/file"], "/no/such/file"),
    ] {
        let error = load_flags(words).unwrap_err();
        assert!(error.to_string().contains(part), "{words:?}: {error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn the_closing_line_is_mooncakes() {
    let measured = Measured {
        seconds: 2.004,
        operations: 150,
        units: 150 * 128 * 65_536,
        corrupt: 0,
        overdue: 0,
        latency: Recorder::default(),
        samples: Vec::new(),
        marks: Vec::new(),
    };
    let line = |words: &[&str]| closing_line(&load_flags(words).unwrap(), &measured);
    assert_eq!(line(&[]), "Test completed: duration 2.00, batch count 150, throughput 0.63 GB/s");
    assert_eq!(
        line(&["--report_unit=Gb", "--report_precision=0"]),
        "Test completed: duration 2.00, batch count 150, throughput 5 Gb/s"
    );
}

#[test]
fn blocks_of_all_threads_cover_the_buffer_without_overlap() {
    let settings = load_flags(&["--block_size=64", "--batch_size=8", "--threads=4"]).unwrap();
    let target = MemoryTarget::new(64 * 8 * 4);
    let mut buffer = vec![0_u8; 64 * 8 * 4];
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = (at % 251) as u8;
    }
    let mut settings = settings;
    settings.direction = Direction::Write;
    settings.span.iterations = 40;
    let address = buffer.as_mut_ptr() as u64;
    let measured = load(&target, address, &settings, &Stop::default()).unwrap();
    assert_eq!(measured.units, 40 * 8 * 64);
    assert!(target.pieces.load(Ordering::Relaxed) >= 40 * 8);
    let mut back = vec![0_u8; buffer.len()];
    let all = crate::ends::mover::Move {
        direction: Direction::Read,
        local: back.as_mut_ptr() as u64,
        remote: 0,
        bytes: back.len() as u64,
    };
    target.transfer(&all).unwrap();
    assert_eq!(back, buffer);
}

#[test]
fn a_target_without_room_for_all_blocks_is_refused() {
    let settings = load_flags(&["--block_size=4096", "--batch_size=8", "--threads=2"]).unwrap();
    assert!(settings.check_target(65_536).is_ok());
    let error = settings.check_target(65_535).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("--buffer_size=65536"), "{error}");
}
