//! A client that can be killed: puts or gets self-describing objects until it is ended.
//! Invariant: it prints what it did and exits with 3 on the first wrong byte.
//!
//! usage: store-driver put|get|put-batch|get-batch MASTER FIRST_KEY KEYS BYTES
//!
//!        store-driver hold BYTES
//!
//! The last one has so much memory until it is ended. The batches hold all keys, go over TCP, and
//! are framed by the lines `begin` and `end`.

#![expect(clippy::print_stdout, reason = "its lines are what the tests read")]

use std::process::ExitCode;

use perigee_schemas::Status;
use perigee_tests::content::version_of;
use perigee_tests::objects::{Objects, key_name};

const WRONG_BYTES: u8 = 3;

/// An object that has bytes which are not its own.
struct Wrong(u64);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<u64>().unwrap_or_default();
    if let [mode, bytes] = arguments.as_slice()
        && mode == "hold"
    {
        return hold(usize::try_from(number(bytes)).unwrap_or_default());
    }
    let [mode, master, first, keys, bytes] = arguments.as_slice() else {
        return ExitCode::from(2);
    };
    let (first, count) = (number(first), number(keys).max(1));
    let keys: Vec<u64> = (first..first + count).collect();
    let bytes = usize::try_from(number(bytes)).unwrap_or_default();
    let objects = if mode.ends_with("-batch") {
        Objects::open_over_tcp(master)
    } else {
        Objects::open(master)
    };
    println!("ready");
    for round in 0u64.. {
        let key = first + round % count;
        let done = match mode.as_str() {
            "put" => put(&objects, key, round, bytes),
            "put-batch" => put_batch(&objects, &keys, round, bytes),
            "get-batch" => get_batch(&objects, &keys, bytes),
            _ => get(&objects, key, bytes),
        };
        if let Err(Wrong(key)) = done {
            println!("wrong {key}");
            return ExitCode::from(WRONG_BYTES);
        }
    }
    ExitCode::SUCCESS
}

fn hold(bytes: usize) -> ExitCode {
    let memory = vec![1u8; bytes];
    println!("holding {}", memory.iter().filter(|byte| **byte == 1).count());
    loop {
        std::thread::park();
        std::hint::black_box(&memory);
    }
}

fn put(objects: &Objects, key: u64, round: u64, bytes: usize) -> Result<(), Wrong> {
    let status = objects.put_object(key, round, bytes);
    println!("put {key} {}", status.code());
    Ok(())
}

fn get(objects: &Objects, key: u64, bytes: usize) -> Result<(), Wrong> {
    let read = objects.get(&key_name(key), bytes);
    tell(key, read.map(|value| version_of(key, &value)))
}

fn put_batch(objects: &Objects, keys: &[u64], round: u64, bytes: usize) -> Result<(), Wrong> {
    println!("begin {round}");
    let statuses = objects.upsert_objects(keys, round, bytes);
    let stored = statuses.iter().filter(|status| **status == Status::Ok);
    println!("end {round} {}", stored.count());
    Ok(())
}

fn get_batch(objects: &Objects, keys: &[u64], bytes: usize) -> Result<(), Wrong> {
    println!("begin");
    let results = objects.get_objects(keys, bytes);
    println!("end");
    keys.iter().zip(results).try_for_each(|(key, result)| tell(*key, result))
}

fn tell(key: u64, read: Result<Option<u64>, Status>) -> Result<(), Wrong> {
    match read {
        Ok(Some(version)) => println!("got {key} {version}"),
        Ok(None) => return Err(Wrong(key)),
        Err(status) => println!("missed {key} {}", status.code()),
    }
    Ok(())
}
