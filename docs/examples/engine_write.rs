//! Write bytes into the memory of another process with the transfer engine.
//!
//! Usage: engine_write target                prints its name and the address of its memory
//!        engine_write write NAME ADDRESS
//!
//! The target waits until the bytes are there, checks them and ends.
#![expect(clippy::print_stdout, reason = "an example says what it did")]

use perigee_client::{CacheMemory, EngineOptions, Notify, PeerEngine, PeerTransfer, SubmitOptions};
use std::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The address by which the other process reaches this one.
const HOST: &str = "127.0.0.1";
const BYTES: usize = 1 << 20;
const DEADLINE: Duration = Duration::from_secs(60);

fn target(engine: &PeerEngine) -> Result<(), Box<dyn Error>> {
    let memory = CacheMemory::allocate(BYTES)?;
    // SAFETY: the memory is lent only after the peer has said that it is done.
    let _exposed = unsafe { engine.expose(&memory, "cpu:0") }?;
    println!("target {} {}", engine.name(), memory.address());
    let begun = Instant::now();
    // A notify follows when all bytes of a batch have arrived.
    let notify = loop {
        match engine.take_notifies().pop() {
            Some(notify) => break notify,
            None if begun.elapsed() > DEADLINE => return Err("no bytes arrived".into()),
            None => sleep(Duration::from_millis(10)),
        }
    };
    let received = memory.lend(0..BYTES)?;
    let received = received.bytes().ok_or("allocated memory is of this host")?;
    assert!(received.iter().all(|byte| *byte == 7));
    println!("received {BYTES} bytes, then the message {:?}", notify.message);
    Ok(())
}

fn write(engine: &PeerEngine, name: &str, address: u64) -> Result<(), Box<dyn Error>> {
    let bytes = vec![7; BYTES];
    let done = Notify { name: "example".into(), message: "done".into() };
    let options = SubmitOptions { notify: Some(done), ..SubmitOptions::default() };
    engine.transfer(name, &mut [PeerTransfer::write(&bytes, address)], &options)?;
    println!("wrote {BYTES} bytes to {name}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let engine = PeerEngine::open(EngineOptions::new(HOST, "P2PHANDSHAKE", "tcp", "")?)?;
    match words[..] {
        ["target"] => target(&engine),
        ["write", name, address] => write(&engine, name, address.parse()?),
        _ => Err("usage: engine_write target | engine_write write NAME ADDRESS".into()),
    }
}
