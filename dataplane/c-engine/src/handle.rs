//! What a `transfer_engine_t` stands for: a running engine, with the numbers by which C knows
//! segments and batches.
//!
//! The invariant: the engine behind a handle keeps the name that peers know, also when a transport
//! is installed after it began.

use crate::batch::OpenBatches;
use crate::failure::Failure;
use crate::segment_numbers::{LOCAL_SEGMENT, SegmentNumbers};
use perigee_c::{Handle, Handles};
use perigee_engine::{EngineError, EngineOptions, TransferEngine};
use perigee_settings::{Protocols, SettingError};
use std::sync::{PoisonError, RwLock};

/// All engines of this process.
pub(crate) static ENGINES: Handles<NativeEngine> = Handles::new("engine", 0x7e00_0000_0010);

/// What an engine without an installed transport speaks.
const FIRST_PROTOCOL: &str = "tcp";

/// An engine as C has it.
pub(crate) struct NativeEngine {
    running: RwLock<Running>,
    pub(crate) segments: SegmentNumbers,
    pub(crate) batches: OpenBatches,
}

struct Running {
    engine: TransferEngine,
    metadata: String,
    /// The transports that were asked for, with commas; none yet, or all of them for an engine
    /// that chooses.
    installed: Vec<String>,
    chooses: bool,
    /// Whether memory, segments or batches depend on it.
    in_use: bool,
}

impl NativeEngine {
    /// Starts an engine; one that does not choose speaks TCP until a transport is installed.
    pub(crate) fn start(metadata: &str, name: &str, chooses: bool) -> Result<Self, Failure> {
        let protocol = if chooses { "" } else { FIRST_PROTOCOL };
        let options = EngineOptions::new(name, metadata, protocol, "")?;
        let running = Running {
            engine: TransferEngine::start(options)?,
            metadata: metadata.to_owned(),
            installed: Vec::new(),
            chooses,
            in_use: false,
        };
        Ok(Self {
            running: RwLock::new(running),
            segments: SegmentNumbers::default(),
            batches: OpenBatches::default(),
        })
    }

    /// The engine, for what may be asked at any time.
    pub(crate) fn engine(&self) -> TransferEngine {
        self.running.read().unwrap_or_else(PoisonError::into_inner).engine.clone()
    }

    /// The engine, for what depends on it from now on.
    pub(crate) fn engine_in_use(&self) -> TransferEngine {
        {
            let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
            if running.in_use {
                return running.engine.clone();
            }
        }
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        running.in_use = true;
        running.engine.clone()
    }

    /// Has the engine speak a protocol, with a matrix of NICs in place of the one found. Whether a
    /// transport is there shows when it is used: without devices, TCP takes the place of RDMA.
    pub(crate) fn install(&self, protocol: &str, matrix: Option<&str>) -> Result<(), Failure> {
        let wanted = Protocols::parse(protocol)?;
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        let spoken = Protocols::parse(&running.protocol())?;
        let is_spoken = (spoken.rdma || !wanted.rdma) && (spoken.tcp || !wanted.tcp);
        if is_spoken && (matrix.is_none() || !spoken.rdma) {
            running.note(protocol);
            return Ok(());
        }
        if running.in_use {
            let reason = "the engine is in use without it; install transports before memory is registered and segments \
                          are opened";
            let refused = SettingError::new("proto", protocol, reason);
            return Err(Failure::Engine(refused.into()));
        }
        running.note(protocol);
        running.restart(matrix)
    }

    /// The name of a segment's number.
    pub(crate) fn segment_name(&self, number: i32) -> Result<String, Failure> {
        match number {
            LOCAL_SEGMENT => Ok(self.engine().local_name().to_owned()),
            _ => Ok(self.segments.name(number)?),
        }
    }
}

impl Drop for NativeEngine {
    fn drop(&mut self) {
        // Memory of the caller may go away after this, so batches in flight end here.
        self.engine().close();
    }
}

impl Running {
    /// What the engine speaks.
    fn protocol(&self) -> String {
        match self.installed.is_empty() {
            true if self.chooses => String::new(),
            true => FIRST_PROTOCOL.to_owned(),
            false => self.installed.join(","),
        }
    }

    fn note(&mut self, protocol: &str) {
        if !self.chooses && !self.installed.iter().any(|known| known == protocol) {
            self.installed.push(protocol.to_owned());
        }
    }

    /// Starts the engine again under its name.
    fn restart(&mut self, matrix: Option<&str>) -> Result<(), Failure> {
        let name = self.engine.local_name().to_owned();
        let mut options = EngineOptions::new(&name, &self.metadata, &self.protocol(), "")?;
        if let Some(matrix) = matrix {
            options.topology = Some(matrix.to_owned());
        }
        self.engine.close();
        self.engine = TransferEngine::start(options)?;
        if self.engine.local_name() == name {
            return Ok(());
        }
        self.engine.close();
        let taken = format!("another program has taken the port of {name}; create it again");
        Err(Failure::Engine(EngineError::Start(taken)))
    }
}

/// Runs `work` with the engine of a handle.
pub(crate) fn with<R>(
    handle: Handle,
    work: impl FnOnce(&NativeEngine) -> Result<R, Failure>,
) -> Result<R, Failure> {
    ENGINES.with(handle, work)?
}
