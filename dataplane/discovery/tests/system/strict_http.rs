//! A metadata server that behaves as Mooncake's Python one: a second PUT of an `rpc_meta` record is
//! answered with 400. Invariant: one request per connection.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{JoinHandle, spawn};

#[derive(Debug)]
pub(crate) struct StrictHttp {
    port: u16,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StrictHttp {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = spawn(move || {
            let mut records = HashMap::new();
            for stream in listener.incoming() {
                if end.load(SeqCst) {
                    return;
                }
                let _ = serve(&mut records, stream.unwrap());
            }
        });
        Self { port, ended, thread: Some(thread) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for StrictHttp {
    fn drop(&mut self) {
        self.ended.store(true, SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Answers one request.
pub(crate) fn serve(
    records: &mut HashMap<String, Vec<u8>>,
    stream: impl Read + Write,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let key = target.split_once("?key=").map_or("", |(_, key)| key).to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, answer) = answer(records, method, key, body);
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    reader.get_mut().write_all(&[head.as_bytes(), &answer].concat())?;
    reader.get_mut().flush()
}

fn answer(
    records: &mut HashMap<String, Vec<u8>>,
    method: &str,
    key: String,
    body: Vec<u8>,
) -> (u16, Vec<u8>) {
    match method {
        "GET" => match records.get(&key) {
            Some(stored) => (200, stored.clone()),
            None => (404, b"metadata not found".to_vec()),
        },
        "PUT" if key.contains("rpc_meta") && records.contains_key(&key) => {
            (400, b"Duplicate rpc_meta key not allowed".to_vec())
        }
        "PUT" => {
            records.insert(key, body);
            (200, b"metadata updated".to_vec())
        }
        _ => match records.remove(&key) {
            Some(_) => (200, b"metadata deleted".to_vec()),
            None => (404, b"metadata not found".to_vec()),
        },
    }
}
