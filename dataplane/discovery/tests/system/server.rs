//! Private metadata servers: etcd and Redis from their packages, and the project's HTTP service.
//! Invariant: a server dies with its value, and its folder goes with it.

use crate::strict_http::StrictHttp;
use crate::wait::until;
use perigee_metadata::{MetadataHandle, MetadataServer};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Attempts to start a server whose port may be taken between its choice and its use.
const STARTS_MAX: usize = 5;

/// A port without a listener at the moment.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A child process that is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let program = command.get_program().to_owned();
        let child = command.stdin(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| {
            panic!("{program:?} cannot be started ({error}); tools/setup.sh installs it")
        }))
    }

    /// Waits until it serves; false = it ended, for example because its port was taken.
    fn comes_up(&mut self, mut serves: impl FnMut() -> bool) -> bool {
        let mut up = false;
        until("the server serves or ends", || {
            let ended = self.0.try_wait().unwrap().is_some();
            up = !ended && serves();
            up || ended
        });
        up
    }

    /// Sends a signal such as `STOP`, after which it has stopped.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success(), "{name}");
        if name == "STOP" {
            until("all its threads have stopped", || self.has_stopped());
        }
    }

    fn has_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let stopped = |task: std::fs::DirEntry| {
            let status = std::fs::read_to_string(task.path().join("stat"));
            // The state follows the name, which may have anything in it but ends with a bracket.
            status.is_ok_and(|text| text.rsplit(") ").next().unwrap().starts_with('T'))
        };
        tasks.flatten().all(stopped)
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One metadata server of any kind.
#[derive(Debug)]
pub(crate) enum Server {
    /// The project's own service.
    Http(u16, Option<MetadataHandle>),
    /// One that refuses to replace `rpc_meta` records, as Mooncake's do.
    StrictHttp(StrictHttp),
    Etcd(Etcd),
    Redis(Redis),
}

impl Server {
    pub(crate) fn http() -> Self {
        let mut server = Self::Http(free_port(), None);
        server.start();
        server
    }

    pub(crate) fn etcd() -> Self {
        Self::Etcd(first_up(|| Etcd::start(free_port(), free_port())))
    }

    pub(crate) fn redis() -> Self {
        Self::Redis(Redis::start(&[]))
    }

    /// One of each kind.
    pub(crate) fn all() -> [Self; 4] {
        let strict = Self::StrictHttp(StrictHttp::start());
        [Self::http(), strict, Self::etcd(), Self::redis()]
    }

    /// The string that names it.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Http(port, _) => format!("http://127.0.0.1:{port}/metadata"),
            Self::StrictHttp(server) => format!("http://127.0.0.1:{}/metadata", server.port()),
            Self::Etcd(etcd) => format!("etcd://127.0.0.1:{}", etcd.port),
            Self::Redis(redis) => format!("redis://127.0.0.1:{}", redis.port),
        }
    }

    /// Stops it; what it knew is lost.
    pub(crate) fn stop(&mut self) {
        match self {
            Self::Http(_, handle) => drop(handle.take()),
            Self::StrictHttp(_) => panic!("this kind is not stopped"),
            Self::Etcd(etcd) => etcd.process.kill(),
            Self::Redis(redis) => redis.process.kill(),
        }
    }

    /// Sends its process a signal such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        match self {
            Self::Http(..) | Self::StrictHttp(_) => panic!("this kind is no process"),
            Self::Etcd(etcd) => etcd.process.signal(name),
            Self::Redis(redis) => redis.process.signal(name),
        }
    }

    /// Starts it again at the same place, knowing nothing.
    pub(crate) fn start(&mut self) {
        match self {
            Self::Http(port, handle) => {
                let address = SocketAddr::from(([127, 0, 0, 1], *port));
                *handle = Some(MetadataServer::start(address).unwrap());
            }
            Self::StrictHttp(_) => {}
            Self::Etcd(etcd) => {
                *etcd = first_up(|| Etcd::start(etcd.port, etcd.peer_port));
            }
            Self::Redis(redis) => *redis = first_up(|| Redis::start_at(redis.port, &[])),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Etcd {
    process: Process,
    port: u16,
    peer_port: u16,
    _folder: TempDir,
}

impl Etcd {
    fn start(port: u16, peer_port: u16) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let cluster = format!("one=http://127.0.0.1:{peer_port}");
        let mut process = etcd_member("one", port, peer_port, &cluster, folder.path());
        process.comes_up(|| etcd_is_healthy(port)).then_some(Self {
            process,
            port,
            peer_port,
            _folder: folder,
        })
    }
}

/// Starts one member of a cluster.
pub(crate) fn etcd_member(
    name: &str,
    port: u16,
    peer_port: u16,
    cluster: &str,
    folder: &Path,
) -> Process {
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    let log = std::fs::File::create(folder.join("log")).unwrap();
    Process::start(
        Command::new("etcd")
            .args(["--name", name, "--data-dir"])
            .arg(folder.join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", cluster])
            .stdout(Stdio::null())
            .stderr(log),
    )
}

/// Whether a member answers and its cluster has a leader.
pub(crate) fn etcd_is_healthy(port: u16) -> bool {
    let answer = ureq::get(format!("http://127.0.0.1:{port}/health")).call();
    let text = answer.map(|mut answer| answer.body_mut().read_to_string());
    text.is_ok_and(|text| text.is_ok_and(|text| text.contains("true")))
}

#[derive(Debug)]
pub(crate) struct Redis {
    process: Process,
    pub(crate) port: u16,
    _folder: TempDir,
}

impl Redis {
    pub(crate) fn start(options: &[&str]) -> Self {
        first_up(|| Self::start_at(free_port(), options))
    }

    fn start_at(port: u16, options: &[&str]) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let mut process = Process::start(
            Command::new("redis-server")
                .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
                .args(["--port", &port.to_string(), "--dir"])
                .arg(folder.path())
                .args(options)
                .stdout(Stdio::null()),
        );
        let serves = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        process.comes_up(serves).then_some(Self { process, port, _folder: folder })
    }
}

/// The first server of several attempts that comes up.
fn first_up<T>(mut start: impl FnMut() -> Option<T>) -> T {
    let started = (0..STARTS_MAX).find_map(|_| start());
    started.unwrap_or_else(|| panic!("the server ended {STARTS_MAX} times"))
}
