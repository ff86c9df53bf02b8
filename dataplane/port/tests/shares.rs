//! Who keeps a place at a full port, by address, on real sockets.
#![allow(clippy::unwrap_used, reason = "tests")]

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};
use perigee_port::{Connection, FrameBudget, Frames, Port, PortOptions, Service, greet};
use perigee_schemas::Identity;
use perigee_schemas::frame::HEADER_BYTES;
use perigee_schemas::session::{Hello, Role};
use perigee_shard::{Environment, ShardEnvironment, ShardOf, ShardOptions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
const PLACES: usize = 8;

/// Takes each peer for a member and waits until it leaves.
struct Club;

impl Service<ShardEnvironment> for Club {
    type State = ();

    fn enter(&self, _: &<ShardEnvironment as Environment>::Stream) {}

    async fn serve(&self, connection: &Connection<ShardEnvironment, ()>) -> io::Result<()> {
        let budget = FrameBudget::new(1 << 20);
        let mut frames = Frames::new(connection.environment(), connection.stream(), &budget);
        connection.recognize();
        greet(&mut frames, 1, 4096).await?;
        while frames.next().await? {
            frames.consume();
        }
        Ok(())
    }
}

/// A greeted connection from one of the loopback addresses; an error if the port closes it.
fn join(from: u8, port: SocketAddr) -> io::Result<TcpStream> {
    let near: SocketAddr = ([127, 0, 0, from], 0).into();
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(near))?;
    connect(fd.as_raw_fd(), &SockaddrStorage::from(port))?;
    let mut stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(LONG))?;
    stream.write_all(&Hello::new(Role::Client, Identity(1)).encode())?;
    stream.read_exact(&mut [0; HEADER_BYTES + 1])?;
    Ok(stream)
}

#[test]
fn an_address_with_most_of_the_places_gives_one_up_for_another_address() {
    let make = async |environment: &ShardEnvironment| {
        let place = (([127, 0, 0, 1], 0).into(), false);
        let port = Port::listen(environment, place, PortOptions::new(PLACES), Club)?;
        let address = port.address();
        Ok::<_, perigee_shard::SocketError>((port, address))
    };
    let serve = async |port: std::rc::Rc<Port<ShardEnvironment, Club>>| port.serve().await;
    let options = ShardOptions::named("test-port");
    let (shard, port) = ShardOf::start(options, LONG, make, serve).unwrap();
    let mut crowd: Vec<_> = (0..PLACES).map(|_| join(2, port).unwrap()).collect();
    assert!(join(2, port).is_err(), "its address has all places");
    let _guest = join(3, port).unwrap();
    let _other = join(4, port).unwrap();
    let gone = crowd.iter_mut().filter_map(|member| {
        member.set_nonblocking(true).ok()?;
        let mut rest = [0; 4096];
        loop {
            match member.read(&mut rest) {
                Ok(0) => return Some(()),
                Ok(_) => {}
                Err(error) => return (error.kind() != io::ErrorKind::WouldBlock).then_some(()),
            }
        }
    });
    assert_eq!(gone.count(), 2, "the crowd has given up one place each");
    shard.with(|port| port.stop());
    shard.join(LONG).unwrap();
}
