//! A client that can be killed: puts or gets self-describing objects until it is ended.
//! Invariant: it prints a line per success and exits with 3 on the first wrong byte.
//!
//! usage: store-driver put|get MASTER FIRST_KEY KEYS BYTES

#![expect(clippy::print_stdout, reason = "its lines are what the tests read")]

use std::process::ExitCode;

use perigee_tests::content::version_of;
use perigee_tests::objects::{Objects, key_name};

const WRONG_BYTES: u8 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, master, first, keys, bytes] = arguments.as_slice() else {
        return ExitCode::from(2);
    };
    let number = |text: &String| text.parse::<u64>().unwrap_or_default();
    let (first, keys) = (number(first), number(keys).max(1));
    let bytes = usize::try_from(number(bytes)).unwrap_or_default();
    let objects = Objects::open(master);
    println!("ready");
    for round in 0u64.. {
        let key = first + round % keys;
        if mode == "put" {
            let status = objects.put_object(key, round, bytes);
            println!("put {key} {}", status.code());
        } else {
            match objects
                .get(&key_name(key), bytes)
                .map(|value| version_of(key, &value))
            {
                Ok(Some(version)) => println!("got {key} {version}"),
                Ok(None) => {
                    println!("wrong {key}");
                    return ExitCode::from(WRONG_BYTES);
                }
                Err(status) => println!("missed {key} {}", status.code()),
            }
        }
    }
    ExitCode::SUCCESS
}
