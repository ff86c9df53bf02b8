//! The few words of memcached's text protocol that a multi-get needs.
//! Invariant: an answer is taken only if it is as long as the hit of every key makes it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::baseline::rounds::Driven;
use crate::ends::process::Server;
use crate::error::BenchError;
use crate::limits::{ANSWER_DEADLINE, REPLY_BYTES_MAX};
use crate::load::drive::{Step, Worker};
use crate::stop::Stop;

const NAME: &str = "memcached";
const END: &[u8] = b"END\r\n";
/// Keys stored without waiting.
const STORE_KEYS: usize = 256;
/// Keys per MiB of memcached's memory, and what it needs beside them.
const KEYS_PER_MIB: usize = 4000;
const MIB_BESIDE: usize = 64;

/// Whether a program can be started under this name.
pub(crate) fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    let command = command.arg("-V").stdin(Stdio::null());
    let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    ended.is_ok_and(|status| status.success())
}

/// A memcached with one thread that holds these keys.
///
/// # Errors
/// It does not start, or does not take them.
pub(crate) fn start(
    program: &str,
    keys: &[&str],
    cpu: Option<usize>,
) -> Result<Server, BenchError> {
    let megabytes = MIB_BESIDE + keys.len() / KEYS_PER_MIB;
    let server = Server::start(Some(program), cpu, |port| {
        let words = ["-t", "1", "-l", "127.0.0.1", "-U", "0", "-u", "root", "-p"];
        let words = words.iter().map(|word| (*word).to_owned());
        let sizes = [port.to_string(), "-m".to_owned(), megabytes.to_string()];
        words.chain(sizes).collect()
    })?;
    let mut connection = Memcached::connect(server.address)?;
    for chunk in keys.chunks(STORE_KEYS) {
        connection.store(chunk)?;
    }
    Ok(server)
}

/// Multi-gets of one thread for each list of batches, as a baseline.
///
/// # Errors
/// It does not answer.
pub(crate) fn baseline<'a>(
    address: SocketAddr,
    threads: &[Vec<Vec<&str>>],
    stop: &'a Stop,
) -> Result<Driven<'a, MemcachedAsker>, BenchError> {
    let asker = |batches: &Vec<Vec<&str>>| {
        let connection = Memcached::connect(address)?;
        Ok(MemcachedAsker::new(connection, batches))
    };
    let workers = threads.iter().map(asker).collect::<Result<Vec<_>, BenchError>>()?;
    let name = "memcached multi-get";
    Ok(Driven { name, workers, stop })
}

/// One connection.
#[derive(Debug)]
struct Memcached {
    stream: TcpStream,
    reply: Vec<u8>,
}

/// A multi-get made ready.
#[derive(Debug)]
struct MultiGet {
    request: Vec<u8>,
    reply_bytes: usize,
}

impl MultiGet {
    /// Asks for `keys`, which must all have been stored by [`Memcached::store`].
    fn new(keys: &[&str]) -> Self {
        let mut request = b"get".to_vec();
        let mut reply_bytes = END.len();
        for key in keys {
            request.push(b' ');
            request.extend_from_slice(key.as_bytes());
            reply_bytes += "VALUE ".len() + key.len() + " 0 1\r\nx\r\n".len();
        }
        request.extend_from_slice(b"\r\n");
        Self { request, reply_bytes }
    }
}

impl Memcached {
    fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
        Ok(Self { stream, reply: Vec::new() })
    }

    /// Stores a value of one byte under each key.
    fn store(&mut self, keys: &[&str]) -> Result<(), BenchError> {
        let mut request = Vec::new();
        for key in keys {
            request.extend_from_slice(format!("set {key} 0 0 1 noreply\r\nx\r\n").as_bytes());
        }
        self.stream.write_all(&request)?;
        self.get(&MultiGet::new(&keys[keys.len().saturating_sub(1)..]))
    }

    /// One multi-get, all of whose keys must be found.
    fn get(&mut self, get: &MultiGet) -> Result<(), BenchError> {
        if get.reply_bytes > REPLY_BYTES_MAX {
            return Err(BenchError::program(
                NAME,
                "a batch this large is not supported; ask for fewer keys",
            ));
        }
        self.stream.write_all(&get.request)?;
        self.reply.resize(get.reply_bytes, 0);
        let mut filled = 0;
        while filled < get.reply_bytes {
            let read = self.stream.read(&mut self.reply[filled..])?;
            filled += read;
            if read == 0 || (filled < get.reply_bytes && self.reply[..filled].ends_with(END)) {
                return Err(BenchError::program(NAME, "it lost keys; give it more memory"));
            }
        }
        if self.reply.ends_with(END) {
            Ok(())
        } else {
            Err(BenchError::program(NAME, "an answer of another form than expected"))
        }
    }
}

/// One thread of multi-gets.
#[derive(Debug)]
pub(crate) struct MemcachedAsker {
    connection: Memcached,
    gets: Vec<MultiGet>,
    keys: u64,
    calls: usize,
}

impl MemcachedAsker {
    /// A thread that asks for these batches in turn.
    fn new(connection: Memcached, batches: &[Vec<&str>]) -> Self {
        Self {
            connection,
            gets: batches.iter().map(|batch| MultiGet::new(batch)).collect(),
            keys: batches.first().map_or(0, Vec::len) as u64,
            calls: 0,
        }
    }
}

impl Worker for MemcachedAsker {
    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        let get = &self.gets[self.calls % self.gets.len()];
        self.calls += 1;
        let started = Instant::now();
        self.connection.get(get)?;
        Ok(Step { took: started.elapsed(), units: self.keys, corrupt: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_multi_get_knows_the_length_of_its_answer() {
        let get = MultiGet::new(&["a", "bcd"]);
        assert_eq!(get.request, b"get a bcd\r\n");
        assert_eq!(get.reply_bytes, "VALUE a 0 1\r\nx\r\nVALUE bcd 0 1\r\nx\r\nEND\r\n".len());
    }
}
