//! Raw connections to ports that speak frames: what a wrong or hostile peer would send.
//! Invariant: reads end at a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use flatbuffers::FlatBufferBuilder;
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::limits::FRAME_BODY_BYTES_MAX;
use perigee_schemas::master::{
    ExistReply, ExistRequest, ExistRequestArgs, ListByRegexRequest, ListByRegexRequestArgs,
};
use perigee_schemas::message::decode;
use perigee_schemas::session::{Hello, Role, Welcome};
use perigee_schemas::{Identity, Status};

use crate::limits::ANSWER_DEADLINE;

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A whole frame with a right checksum.
    Frame {
        /// What it is.
        kind: MessageKind,
        /// Number of the request it answers.
        request: u64,
        /// Its body.
        body: Vec<u8>,
    },
    /// The peer closed or reset the connection.
    Closed,
    /// Nothing until the deadline.
    Silence,
    /// Bytes that are no frame.
    Garbage(String),
}

/// A TCP connection.
#[derive(Debug)]
pub struct Connection(TcpStream);

impl Connection {
    /// Connects; the error is the system's.
    pub fn open(server: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&server, ANSWER_DEADLINE)?;
        stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Connects and greets; fails the test when that is refused.
    #[track_caller]
    pub fn greeted(server: SocketAddr) -> Self {
        let mut connection = Self::open(server).expect("the port accepts connections");
        let welcome = connection.greet(&hello());
        assert_eq!(welcome.expect("a greeting is answered").status, Status::Ok);
        connection
    }

    /// Sends bytes; false when the peer has gone.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// Tells the peer that nothing more comes.
    pub fn finish_sending(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Sends a frame of any kind.
    pub fn send_frame(&mut self, kind: MessageKind, request: u64, body: &[u8]) -> bool {
        self.send(&FrameHeader::encode(kind, request, body)) && self.send(body)
    }

    /// The next frame, or what came instead.
    pub fn hear(&mut self) -> Heard {
        let mut header = [0; HEADER_BYTES];
        if let Err(error) = self.0.read_exact(&mut header) {
            return silence_or_end(&error);
        }
        let judged = match FrameHeader::decode(&header, FRAME_BODY_BYTES_MAX) {
            Ok(judged) => judged,
            Err(error) => return Heard::Garbage(error.to_string()),
        };
        let mut body = vec![0; judged.body_bytes];
        if let Err(error) = self.0.read_exact(&mut body) {
            return silence_or_end(&error);
        }
        match judged.check(&body) {
            Ok(()) => Heard::Frame { kind: judged.kind, request: judged.request, body },
            Err(error) => Heard::Garbage(error.to_string()),
        }
    }

    /// Everything until the peer ends the connection or is silent, as text.
    pub fn hear_text(&mut self) -> String {
        let mut bytes = Vec::new();
        let _ = self.0.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the peer ends the connection; frames before that are skipped, at most `frames_max`.
    pub fn is_ended_by_peer(&mut self, frames_max: usize) -> bool {
        for _ in 0..=frames_max {
            match self.hear() {
                Heard::Closed => return true,
                Heard::Frame { .. } => {}
                Heard::Silence | Heard::Garbage(_) => return false,
            }
        }
        false
    }

    /// Greets; what the peer says, or what came instead.
    pub fn greet(&mut self, hello: &Hello) -> Result<Welcome, Heard> {
        self.send(&hello.encode());
        match self.hear() {
            Heard::Frame { kind: MessageKind::Welcome, body, .. } => {
                Welcome::decode(&body).map_err(|e| Heard::Garbage(e.to_string()))
            }
            other => Err(other),
        }
    }

    /// Statuses of an exist call, or what came instead.
    pub fn exist(&mut self, request: u64, keys: &[&str]) -> Result<Vec<i32>, Heard> {
        self.send_frame(MessageKind::Exist, request, &exist_body(keys));
        match self.hear() {
            Heard::Frame { kind: MessageKind::Reply, request: answered, body }
                if answered == request =>
            {
                let reply = decode::<ExistReply<'_>>(&body);
                let reply = reply.map_err(|e| Heard::Garbage(e.to_string()))?;
                Ok(reply.status().map(|all| all.iter().collect()).unwrap_or_default())
            }
            other => Err(other),
        }
    }
}

/// The greeting of some client.
pub fn hello() -> Hello {
    Hello::new(Role::Client, Identity(0x7e57))
}

/// Body of an exist request that names one key many times and contains it once.
pub fn repeated_key_body(key: &str, count: usize) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let word = builder.create_string(key);
    let words = builder.create_vector(&vec![word; count]);
    let arguments = ExistRequestArgs { keys: Some(words), single: false };
    let root = ExistRequest::create(&mut builder, &arguments);
    builder.finish_minimal(root);
    builder.finished_data().to_vec()
}

/// Body of a request for a page of all keys.
pub fn list_body() -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let arguments = ListByRegexRequestArgs {
        pattern: Some(builder.create_string(".*")),
        limit: u32::MAX,
        cursor: None,
        tenant: None,
    };
    let root = ListByRegexRequest::create(&mut builder, &arguments);
    builder.finish_minimal(root);
    builder.finished_data().to_vec()
}

/// Body of an exist request.
pub fn exist_body(keys: &[&str]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let words: Vec<_> = keys.iter().map(|key| builder.create_string(key)).collect();
    let words = builder.create_vector(&words);
    let arguments = ExistRequestArgs { keys: Some(words), single: false };
    let root = ExistRequest::create(&mut builder, &arguments);
    builder.finish_minimal(root);
    builder.finished_data().to_vec()
}

fn silence_or_end(error: &std::io::Error) -> Heard {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Heard::Silence,
        _ => Heard::Closed,
    }
}
