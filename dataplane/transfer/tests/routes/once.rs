//! Connections that are cut: a write goes over one connection only, for its bytes may still arrive
//! over the first when newer ones lie there; a read goes again.

use crate::node::{Node, engine_within, node, payload, place, read_one, write_all};
use perigee_memory::ByteRange;
use perigee_transfer::{ReplicaAddress, Route, SegmentAddress, TransferError, WriteJob};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);
/// Below the bounds of what the calling thread moves itself, and above them.
const SIZES: [usize; 2] = [4096, 3 << 20];

/// Relays connections to a node, and cuts those that are doomed.
pub(crate) struct Cutter {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    /// Connections with a smaller number are cut when the client sends something.
    doomed: Arc<AtomicUsize>,
    /// How many were cut so.
    cut: Arc<AtomicUsize>,
}

impl Cutter {
    fn before(node: &Node) -> Self {
        Self::at("127.0.0.1", &node.address.endpoint)
    }

    /// One that listens on `ip`, before an owner.
    pub(crate) fn at(ip: &str, owner: &str) -> Self {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let cutter = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            doomed: Arc::default(),
            cut: Arc::default(),
        };
        let owner = owner.to_owned();
        let (connections, doomed) = (cutter.connections.clone(), cutter.doomed.clone());
        let cut = cutter.cut.clone();
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let (client, owner) = (client.unwrap(), TcpStream::connect(&owner).unwrap());
                connections.lock().unwrap().push(client.try_clone().unwrap());
                let back = (owner.try_clone().unwrap(), client.try_clone().unwrap());
                let (doomed, cut) = (doomed.clone(), cut.clone());
                std::thread::spawn(move || relay(back, || false));
                std::thread::spawn(move || {
                    relay((client, owner), || {
                        let is_cut = number < doomed.load(Ordering::SeqCst);
                        cut.fetch_add(usize::from(is_cut), Ordering::SeqCst);
                        is_cut
                    });
                });
            }
        });
        cutter
    }

    /// From now on the connections that there are do not carry another byte to the node.
    fn doom(&self) {
        self.doomed.store(self.connections.lock().unwrap().len(), Ordering::SeqCst);
    }

    /// Ends all connections, as a peer that restarts does.
    fn end(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn place(&self, node: &Node, bytes: usize) -> ReplicaAddress {
        let segment =
            SegmentAddress { endpoint: self.address.to_string(), ..(*node.address).clone() };
        ReplicaAddress { segment: Arc::new(segment), ..place(node, 0, bytes, 7) }
    }
}

fn relay((mut from, mut to): (TcpStream, TcpStream), is_cut: impl Fn() -> bool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if is_cut() || to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[test]
fn a_write_whose_connection_breaks_is_not_sent_again() {
    for bytes in SIZES {
        let (node, first, second) = (node(), payload(1, bytes), payload(2, bytes));
        let cutter = Cutter::before(&node);
        let engine = engine_within(&node, Route::Tcp, DEADLINE);
        let place = cutter.place(&node, bytes);
        write_all(&engine, std::slice::from_ref(&place), std::slice::from_ref(&first));
        cutter.doom();
        let pieces = [ByteRange::from(second.as_slice())];
        let job = WriteJob { place: &place, pieces: &pieces };
        // SAFETY: the data outlives the call.
        let outcome = unsafe { engine.write(&[job]) };
        let error = outcome[0].as_ref().map_err(TransferError::may_still_arrive);
        assert_eq!(error, Err(true), "{bytes} bytes");
        assert!(cutter.cut.load(Ordering::SeqCst) > 0, "an open connection was used");
        engine.close();
    }
}

#[test]
fn a_read_whose_connection_breaks_is_sent_again() {
    for bytes in SIZES {
        let (node, data) = (node(), payload(1, bytes));
        let cutter = Cutter::before(&node);
        let engine = engine_within(&node, Route::Tcp, DEADLINE);
        let place = cutter.place(&node, bytes);
        let pieces = (std::slice::from_ref(&place), std::slice::from_ref(&data));
        let checksum = write_all(&engine, pieces.0, pieces.1)[0];
        cutter.doom();
        assert!(read_one(&engine, &place, checksum).unwrap() == data, "{bytes} bytes");
        assert!(cutter.cut.load(Ordering::SeqCst) > 0, "an open connection was used");
        engine.close();
    }
}

#[test]
fn a_write_after_the_peer_has_ended_its_idle_connections_goes_well() {
    for bytes in SIZES {
        let (node, data) = (node(), payload(1, bytes));
        let cutter = Cutter::before(&node);
        let engine = engine_within(&node, Route::Tcp, DEADLINE);
        let place = cutter.place(&node, bytes);
        for _ in 0..10 {
            write_all(&engine, std::slice::from_ref(&place), std::slice::from_ref(&data));
            cutter.end();
        }
        engine.close();
    }
}
