//! Lines of JSON on a connection. Invariant: a line is bounded, and so is the wait for it.

use crate::limits::LINE_BYTES_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Writes a message.
pub(crate) fn say(stream: &TcpStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut stream = stream;
    stream.write_all(&line)
}

/// Reads the next message within a time; `None` if the other end has nothing more to say. No byte
/// behind the line is taken.
pub(crate) fn hear<T: DeserializeOwned>(
    mut stream: &TcpStream,
    limit: Duration,
) -> io::Result<Option<T>> {
    let until = Instant::now() + limit;
    let mut line = Vec::new();
    let mut byte = [0u8; 1];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut byte) {
            Ok(0) if line.is_empty() => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) if line.len() == LINE_BYTES_MAX => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
            }
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
    let message = serde_json::from_slice(&line);
    message.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
