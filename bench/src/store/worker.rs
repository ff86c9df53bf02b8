//! One thread of the store load. Invariant: a call that did not end well for every key ends the
//! load.

use crate::error::BenchError;
use crate::load::drive::{Step, Worker};
use crate::load::workload::Workload;
use crate::settings::Load;

/// One thread.
pub(super) struct StoreWorker<'w, 'a> {
    workload: &'w mut Workload<'a>,
    operation: &'static str,
    /// Bytes or keys of a call.
    units: u64,
    verify: bool,
}

impl<'w, 'a> StoreWorker<'w, 'a> {
    /// A thread; blocks to read are stored already.
    pub(super) fn new(
        workload: &'w mut Workload<'a>,
        operation: &'static str,
        bytes: u64,
        load: &Load,
    ) -> Self {
        let bytes = if operation == "exist" { 1 } else { bytes };
        Self {
            workload,
            operation,
            units: bytes * load.depth,
            verify: load.verify && operation != "exist",
        }
    }
}

impl Worker for StoreWorker<'_, '_> {
    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        let took = match self.operation {
            "put" => self.workload.put(),
            "get" => self.workload.get(),
            _ => self.workload.exist(),
        }?;
        if self.verify {
            self.workload.check_last()?;
        }
        Ok(Step { took, units: self.units, corrupt: 0 })
    }
}
