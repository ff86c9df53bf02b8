//! What a port promises whatever its peers do: frames and greetings end, places are shared, a stop
//! is an end.
#![expect(clippy::unwrap_used, reason = "the functions that tests share fail their test")]

use perigee_port::{
    Connection, FRAME_DEADLINE, FrameBudget, Frames, GREETING_DEADLINE, Port, PortOptions, Service,
    connect, greet,
};
use perigee_schemas::Identity;
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::session::{Hello, Role};
use perigee_shard::{Environment, Message, Stream};
use perigee_simulation::{HostId, Leftovers, SimulatedEnvironment, SimulatedStream, World};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);
const BODY_BYTES_MAX: usize = 4 << 20;
/// More than the network of a run delays anything.
const SLACK: Duration = Duration::from_secs(2);

/// Answers each frame by its body; a body that begins with `m` makes its peer a member.
struct Echo(FrameBudget);

impl Service<SimulatedEnvironment> for Echo {
    type State = ();

    fn enter(&self, _: &SimulatedStream) {}

    async fn serve(&self, connection: &Connection<SimulatedEnvironment, ()>) -> io::Result<()> {
        let mut frames = Frames::new(connection.environment(), connection.stream(), &self.0);
        greet(&mut frames, 7, BODY_BYTES_MAX).await?;
        while frames.next().await? {
            connection.hear();
            let (header, body) = frames.frame()?;
            if body.first() == Some(&b'm') {
                connection.recognize();
            }
            let answer = framed(header.request, body);
            frames.consume();
            frames.send_bytes(answer).await?;
        }
        Ok(())
    }
}

type EchoPort = Rc<Port<SimulatedEnvironment, Echo>>;

struct Scene {
    world: Rc<World>,
    near: HostId,
    port: EchoPort,
    budget: FrameBudget,
}

/// A world with an echo port on its second host.
fn scene(seed: u64, options: PortOptions, budget_bytes: usize) -> Scene {
    let world = World::new(seed);
    let [near, far] = [world.add_host(), world.add_host()];
    let environment = world.environment(far);
    let address = SocketAddr::new(environment.address(), 9);
    let budget = FrameBudget::new(budget_bytes);
    let service = Echo(budget.clone());
    let port = Port::listen(&environment, (address, false), options, service).unwrap();
    let served = port.clone();
    environment.spawn(async move { served.serve().await });
    Scene { world, near, port, budget }
}

impl Scene {
    /// Runs a task on the near host and returns its result.
    fn outcome<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        task: impl FnOnce(SimulatedEnvironment, SocketAddr) -> F,
    ) -> T {
        let result = Rc::new(RefCell::new(None));
        let outcome_slot = result.clone();
        let environment = self.world.environment(self.near);
        let task = task(environment.clone(), self.port.address());
        environment.spawn(async move {
            let found = task.await;
            *outcome_slot.borrow_mut() = Some(found);
        });
        self.world.run(self.world.now() + LONG, || result.borrow().is_some()).unwrap();
        result.take().unwrap()
    }

    /// Stops the port and looks at what is left.
    fn end(self) {
        self.port.stop();
        let end = self.world.now() + 3 * SECOND;
        let (clock, port) = (self.world.clone(), self.port);
        self.world.direct(self.world.sleep(4 * SECOND));
        self.world.run(LONG * 10, move || clock.now() > end).unwrap();
        assert_eq!(port.connection_count(), 0);
        assert_eq!(self.budget.held_bytes(), 0);
        drop(port);
        assert_eq!(self.world.leftovers(), Leftovers::default());
        self.world.end();
    }
}

fn framed(request: u64, body: &[u8]) -> Vec<u8> {
    [&FrameHeader::encode(MessageKind::Exist, request, body)[..], body].concat()
}

fn hello() -> Hello {
    Hello::new(Role::Client, Identity(1))
}

async fn send(stream: &SimulatedStream, bytes: &[u8]) -> io::Result<()> {
    let mut message = Message::new();
    message.push_owned(bytes.to_vec());
    stream.send_message(message).await
}

/// Sends a byte each second until the peer ends the connection; how long that took.
async fn drip(
    environment: &SimulatedEnvironment,
    stream: &SimulatedStream,
    bytes: Vec<u8>,
) -> Duration {
    let begun = environment.now();
    let (theirs, sleeper) = (stream.clone(), environment.clone());
    environment.spawn(async move {
        for byte in bytes {
            if send(&theirs, &[byte]).await.is_err() {
                return;
            }
            sleeper.sleep(SECOND).await;
        }
    });
    loop {
        let (count, _) = stream.receive(Vec::with_capacity(4096)).await;
        if count.is_err() || count.is_ok_and(|count| count == 0) {
            return environment.now() - begun;
        }
    }
}

type Greeted = Frames<SimulatedEnvironment>;

async fn greeted(environment: &SimulatedEnvironment, address: SocketAddr) -> io::Result<Greeted> {
    let own = FrameBudget::new(1 << 30);
    let limits = (&own, BODY_BYTES_MAX);
    Ok(connect(environment, address, &hello(), limits, SECOND * 5).await?.0)
}

async fn echo(frames: &mut Greeted, body: &[u8]) -> io::Result<()> {
    frames.send_bytes(framed(1, body)).await?;
    if !frames.next().await? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    assert_eq!(frames.frame()?.1, body);
    frames.consume();
    Ok(())
}

#[test]
fn a_greeting_that_drips_in_is_cut_off_at_one_deadline() {
    for seed in 0..5 {
        let scene = scene(seed, PortOptions::new(10), 1 << 20);
        let took = scene.outcome(|environment, address| async move {
            let stream = environment.connect(address).await.unwrap();
            drip(&environment, &stream, hello().encode()).await
        });
        let bounds = GREETING_DEADLINE - SLACK..GREETING_DEADLINE + SLACK;
        assert!(bounds.contains(&took), "seed {seed}: {took:?}");
        scene.end();
    }
}

#[test]
fn a_frame_that_drips_in_is_cut_off_at_one_deadline() {
    for seed in 0..5 {
        let scene = scene(seed, PortOptions::new(10), 1 << 20);
        let took = scene.outcome(|environment, address| async move {
            let frames = greeted(&environment, address).await.unwrap();
            // Silence between frames is no offence.
            environment.sleep(LONG / 2).await;
            drip(&environment, frames.stream(), framed(1, &[0; 500])).await
        });
        let bounds = FRAME_DEADLINE - SLACK..FRAME_DEADLINE + SLACK;
        assert!(bounds.contains(&took), "seed {seed}: {took:?}");
        scene.end();
    }
}

#[test]
fn unfinished_frames_never_hold_more_than_the_budget_and_small_ones_are_served_beside_them() {
    for seed in 0..5 {
        const BUDGET: usize = 8 << 20;
        let scene = scene(seed, PortOptions::new(100), BUDGET);
        let budget = scene.budget.clone();
        let held_most = scene.outcome(|environment, address| async move {
            let large = framed(1, &vec![1; 3 << 20]);
            let mut held_most = 0;
            let mut hoarders = Vec::new();
            for _ in 0..20 {
                let frames = greeted(&environment, address).await.unwrap();
                let (stream, most) = (frames.stream().clone(), large[..large.len() - 1].to_vec());
                environment.spawn(async move {
                    let _ = send(&stream, &most).await;
                });
                hoarders.push(frames);
            }
            let mut other = greeted(&environment, address).await.unwrap();
            for _ in 0..20 {
                echo(&mut other, &[2; 60_000]).await.unwrap();
                held_most = held_most.max(budget.held_bytes());
                environment.sleep(SECOND / 2).await;
            }
            drop(hoarders);
            environment.sleep(FRAME_DEADLINE).await;
            echo(&mut other, &vec![3; 3 << 20]).await.unwrap();
            held_most
        });
        assert!(held_most >= HEADER_BYTES + (3 << 20), "seed {seed}");
        assert!(held_most <= BUDGET / 2 + (64 << 10), "seed {seed}: {held_most}");
        scene.end();
    }
}

#[test]
fn at_the_bound_the_longest_silent_stranger_goes_and_members_stay() {
    for seed in 0..5 {
        let scene = scene(seed, PortOptions::new(10), 1 << 20);
        scene.outcome(|environment, address| async move {
            let mut member = greeted(&environment, address).await.unwrap();
            echo(&mut member, b"member").await.unwrap();
            let mut strangers = Vec::new();
            for _ in 0..9 {
                strangers.push(greeted(&environment, address).await.unwrap());
                environment.sleep(SECOND).await;
            }
            // All but the second speak once more.
            for (index, stranger) in strangers.iter_mut().enumerate() {
                if index != 1 {
                    echo(stranger, b"stranger").await.unwrap();
                }
            }
            let mut newcomer = greeted(&environment, address).await.unwrap();
            echo(&mut newcomer, b"newcomer").await.unwrap();
            echo(&mut member, b"member").await.unwrap();
            for (index, stranger) in strangers.iter_mut().enumerate() {
                let served = echo(stranger, b"stranger").await;
                assert_eq!(served.is_ok(), index != 1, "stranger {index}");
            }
        });
        assert!(scene.port.connection_count() <= 10);
        scene.end();
    }
}

#[test]
fn silent_strangers_are_closed_and_silent_members_stay() {
    let options = PortOptions { stranger_idle: Some(60 * SECOND), ..PortOptions::new(10) };
    let scene = scene(1, options, 1 << 20);
    scene.outcome(|environment, address| async move {
        let mut member = greeted(&environment, address).await.unwrap();
        echo(&mut member, b"member").await.unwrap();
        let mut stranger = greeted(&environment, address).await.unwrap();
        environment.sleep(50 * SECOND).await;
        echo(&mut stranger, b"stranger").await.unwrap();
        environment.sleep(50 * SECOND).await;
        echo(&mut stranger, b"stranger").await.unwrap();
        environment.sleep(65 * SECOND).await;
        assert!(echo(&mut stranger, b"stranger").await.is_err());
        echo(&mut member, b"member").await.unwrap();
    });
    scene.end();
}

#[test]
fn a_stop_ends_every_connection_whatever_it_waits_for() {
    for seed in 0..20 {
        let scene = scene(seed, PortOptions::new(10), 1 << 20);
        let port = scene.port.clone();
        scene.outcome(|environment, address| async move {
            let greeting = environment.connect(address).await.unwrap();
            let silent = greeted(&environment, address).await.unwrap();
            let half = greeted(&environment, address).await.unwrap();
            send(half.stream(), &framed(1, &[0; 100])[..50]).await.unwrap();
            port.stop();
            for stream in [&greeting, silent.stream(), half.stream()] {
                let (count, _) = stream.receive(Vec::with_capacity(10)).await;
                assert!(count.is_err() || count.is_ok_and(|count| count == 0));
            }
        });
        scene.end();
    }
}
