//! The running agent: one thread reads the host every second, another serves what was read.

use crate::board::SnapshotBoard;
use crate::collector::Collector;
use crate::explain::SourceState;
use crate::limits::INTERVAL;
use crate::options::AgentOptions;
use crate::otlp::{ExportQueue, OtlpExporter, OtlpTarget};
use crate::persisted::StateLock;
use crate::reporter::ClusterReporter;
use crate::web;
use perigee_http::{HttpHandle, HttpServer, HttpStartError};
use perigee_mesh::MeshServer;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Its port.
    #[error(transparent)]
    Serve(#[from] HttpStartError),
    /// Its port for measurements.
    #[error("Cannot listen on {address} for measurements: {cause}; choose another --check_port")]
    Check {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// Its state folder.
    #[error(
        "Another agent keeps its counters in {folder}; stop it, or give each its own --state_dir \
         (`--state_dir=` keeps nothing)"
    )]
    State {
        /// Which.
        folder: String,
    },
    /// Its thread.
    #[error("Cannot start the collecting thread: {0}")]
    Thread(std::io::Error),
}

/// A running agent. Dropping it stops it.
#[derive(Debug)]
pub struct Agent {
    http: Option<HttpHandle>,
    /// Measurements by others, where they are allowed.
    mesh: Option<MeshServer>,
    /// Reports to a master, where one is given.
    reporter: Option<ClusterReporter>,
    /// What is exported to a collector, where one is given.
    exporter: Option<OtlpExporter>,
    stop: Option<Sender<()>>,
    collecting: Option<JoinHandle<()>>,
    /// No other agent writes what this one keeps.
    _state: Option<StateLock>,
}

impl Agent {
    /// Starts to read and to serve.
    ///
    /// # Errors
    /// The port is taken, or the thread cannot be started.
    pub fn start(options: AgentOptions) -> Result<Self, AgentError> {
        let state = options.state.as_deref().map(StateLock::take).transpose();
        let state = state.map_err(|folder| AgentError::State { folder })?.flatten();
        let board =
            Arc::new(SnapshotBoard::open(options.state.as_deref(), options.report_to.clone()));
        let http = HttpServer::start("agent", options.listen, web::router(Arc::clone(&board)))?;
        let measured = |address| {
            MeshServer::start(address, "", &options.interfaces)
                .map_err(|cause| AgentError::Check { address, cause })
        };
        let mesh = options.check.map(measured).transpose()?;
        if let Some(mesh) = &mesh {
            tracing::info!(address = %mesh.address(), "Others may measure the links of this host");
        }
        let reported = |master: &String| {
            let (interfaces, board) = (options.interfaces.clone(), Arc::clone(&board));
            let port = reachable_port(http.local_addr());
            ClusterReporter::start(master.clone(), (interfaces, port), board)
                .map_err(AgentError::Thread)
        };
        let reporter = options.report_to.as_ref().map(reported).transpose()?;
        let exported = |target: &OtlpTarget| {
            OtlpExporter::start(target.clone(), Arc::clone(&board)).map_err(AgentError::Thread)
        };
        let exporter = options.otlp.as_ref().map(exported).transpose()?;
        let queue = exporter.as_ref().and_then(OtlpExporter::queue);
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("agent-collect".to_owned());
        let collecting = thread.spawn(move || {
            collect(Collector::new(options), &board, queue.as_ref(), &stopped);
        });
        Ok(Self {
            http: Some(http),
            mesh,
            reporter,
            exporter,
            stop: Some(stop),
            collecting: Some(collecting.map_err(AgentError::Thread)?),
            _state: state,
        })
    }

    /// Where it serves.
    pub fn address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpHandle::local_addr)
    }

    /// Ends both threads; probes are detached and counters kept when it returns.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(http) = self.http.take() {
            http.stop();
        }
        drop(self.mesh.take());
        drop(self.reporter.take());
        drop(self.stop.take());
        if let Some(collecting) = self.collecting.take()
            && collecting.join().is_err()
        {
            tracing::error!("The collecting thread ended by a panic");
        }
        drop(self.exporter.take());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end();
    }
}

/// The port on which other hosts find this agent; none if only its own host does.
fn reachable_port(address: SocketAddr) -> Option<u16> {
    (!address.ip().is_loopback()).then_some(address.port())
}

/// Reads the host until the sender is gone.
fn collect(
    mut collector: Collector,
    board: &SnapshotBoard,
    exported: Option<&ExportQueue>,
    stopped: &Receiver<()>,
) {
    let mut logged = BTreeMap::new();
    loop {
        let counts = exported.map(ExportQueue::counts);
        let snapshot = collector.collect_with(counts);
        log_changes(&mut logged, &snapshot.sources);
        // Before it is served: if the agent is killed, the next one starts from no less than was
        // seen.
        collector.save();
        let spans = collector.new_spans();
        exported.into_iter().for_each(|queue| queue.put(&spans));
        board.keep(spans);
        board.put(snapshot);
        match stopped.recv_timeout(INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
}

/// Logs what is off or shows a part only, when that begins and when it ends.
fn log_changes(logged: &mut BTreeMap<String, String>, sources: &[SourceState]) {
    for source in sources {
        let (name, state) = (&source.name, &source.state);
        let before = logged.insert(name.clone(), state.clone());
        if before.as_ref() == Some(state) {
            continue;
        }
        let (reason, remedy) = (&source.reason, &source.remedy);
        match state.as_str() {
            "off" => tracing::info!(source = %name, %reason, %remedy, "Off"),
            "partly" => tracing::info!(source = %name, %reason, %remedy, "Partly on"),
            _ if before.is_some() => tracing::info!(source = %name, "On"),
            _ => {}
        }
    }
}
