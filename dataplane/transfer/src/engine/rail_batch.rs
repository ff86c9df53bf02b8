//! A batch of jobs over rails. Invariant: a flight ends only when no device touches the memory of its jobs any more, and
//! a write that failed goes another way only when nothing of it can still land.

use super::Rails;
use super::landing::Landing;
use super::passage::Passage;
use super::stage::Loan;
use crate::client::FarJob;
use crate::error::TransferError;
use crate::limits::SLOWEST_PER_BYTE_NS;
use perigee_rails::{RailError, RailRequest, Sink, deadline_in};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What became of a job.
#[derive(Debug)]
pub(crate) enum Passed {
    /// It is through: its checksum, or what was found to be wrong.
    Through(Result<u32, TransferError>),
    /// Rails could not do it; it may go over TCP.
    Divert,
}

/// Why a passage failed.
struct Fault {
    error: RailError,
    /// Something of it may still be on its way: the rails could not have the broken queue pair taken down.
    is_loose: bool,
}

/// Jobs on their way.
pub(crate) struct RailFlight {
    rails: Arc<Rails>,
    passages: Vec<Passage>,
    /// By passage: why it failed.
    faults: HashMap<usize, Fault>,
    /// Passages by the peer that they lead to.
    legs: Vec<Vec<usize>>,
    landings: Vec<Arc<Landing>>,
    deadline: Duration,
    /// Given back after the last landing.
    _loan: Loan,
}

/// The two stages of a passage.
#[derive(Clone, Copy)]
enum Part {
    First,
    Last,
}

impl RailFlight {
    /// Starts those of the jobs that rails can carry, and returns the others.
    pub(crate) fn take_off<'a>(
        rails: &Arc<Rails>,
        jobs: impl Iterator<Item = (usize, &'a FarJob)>,
        deadline: Duration,
    ) -> (Self, Vec<usize>) {
        let mut loan = Loan::new(rails.stages());
        let (mut passages, mut others) = (Vec::new(), Vec::new());
        let mut endpoints = HashMap::new();
        for (index, job) in jobs {
            let name = job.place.segment.endpoint.as_str();
            let endpoint = endpoints
                .entry(name)
                .or_insert_with(|| Arc::<str>::from(name));
            let way = rails.way(endpoint, job.place.segment.id);
            let passage = way.and_then(|way| Passage::new(rails, &mut loan, (index, job), way));
            match passage {
                Some(passage) => passages.push(passage),
                None => others.push(index),
            }
        }
        let bytes: u64 = passages.iter().map(|passage| passage.bytes).sum();
        let mut flight = Self {
            rails: rails.clone(),
            legs: legs(&passages),
            passages,
            faults: HashMap::new(),
            landings: Vec::new(),
            // The other half is for TCP.
            deadline: deadline / 2
                + Duration::from_nanos(SLOWEST_PER_BYTE_NS.saturating_mul(bytes)),
            _loan: loan,
        };
        flight.passages.iter_mut().for_each(Passage::load);
        flight.launch(Part::First);
        (flight, others)
    }

    /// Sees the jobs through; what became of each, with its index.
    pub(crate) fn land(mut self) -> Vec<(usize, Passed)> {
        self.passages.iter_mut().for_each(Passage::sum_source);
        self.wait();
        self.launch(Part::Last);
        let faults = &self.faults;
        let passages = self.passages.iter_mut().enumerate();
        let sound = passages.filter(|(index, _)| !faults.contains_key(index));
        sound.for_each(|(_, passage)| passage.unload());
        self.wait();
        let fences = self.fence();
        let verdict = |(index, passage): (usize, &Passage)| {
            let passed = match (self.faults.get(&index), fences.get(&passage.way.endpoint)) {
                (None, _) => Passed::Through(passage.arrive()),
                (Some(fault), Some(Err(error))) if fault.is_loose && passage.is_write() => {
                    Passed::Through(Err(error.clone()))
                }
                (Some(_), _) => Passed::Divert,
            };
            (passage.job, passed)
        };
        self.passages.iter().enumerate().map(verdict).collect()
    }

    /// Hands the requests of one part to the rails, peer by peer.
    fn launch(&mut self, part: Part) {
        let deadline = deadline_in(self.deadline);
        for leg in &self.legs {
            let sound = leg.iter().filter(|index| !self.faults.contains_key(*index));
            let sound: Vec<usize> = sound.copied().collect();
            let Some(peer) = sound.first().map(|index| &self.passages[*index].way.peer) else {
                continue;
            };
            let mut requests: Vec<RailRequest> = Vec::new();
            for index in &sound {
                match part {
                    Part::First => self.passages[*index].first(&mut requests, *index as u64),
                    Part::Last => self.passages[*index].last(&mut requests, *index as u64),
                }
            }
            if requests.is_empty() {
                continue;
            }
            let landing = Arc::new(Landing::new(requests.len()));
            let sink: Arc<dyn Sink> = landing.clone();
            let engine = self.rails.engine();
            // SAFETY: the flight waits for all requests before the caller's memory and the stages are given up.
            match unsafe { engine.submit(peer, &requests, deadline, &sink) } {
                Ok(_) => self.landings.push(landing),
                Err(error) => {
                    let fault = || Fault {
                        error: error.clone(),
                        is_loose: false,
                    };
                    let faults = sound.into_iter().map(|index| (index, fault()));
                    self.faults.extend(faults);
                }
            }
        }
    }

    fn wait(&mut self) {
        for landing in std::mem::take(&mut self.landings) {
            for (tag, error) in landing.wait(|| self.rails.engine().stalled()) {
                let is_loose = matches!(error, RailError::Unfenced { .. });
                let fault = Fault { error, is_loose };
                self.faults.entry(tag as usize).or_insert(fault);
            }
        }
    }

    /// After a fault a peer's rails are left for a while. If something of a write may still land, all queue pairs there
    /// are taken down first.
    fn fence(&self) -> HashMap<Arc<str>, Result<(), TransferError>> {
        let mut fences = HashMap::new();
        for (index, fault) in &self.faults {
            let passage = &self.passages[*index];
            let endpoint = &passage.way.endpoint;
            tracing::debug!(error = %fault.error, peer = %endpoint, "A transfer leaves RDMA");
            if is_of_peer(&fault.error) {
                self.rails.suspend(endpoint);
            }
            if fault.is_loose && passage.is_write() && !fences.contains_key(endpoint) {
                fences.insert(endpoint.clone(), self.rails.fence(endpoint));
            }
        }
        fences
    }
}

impl Drop for RailFlight {
    fn drop(&mut self) {
        self.wait();
    }
}

/// Groups passages by their peers.
fn legs(passages: &[Passage]) -> Vec<Vec<usize>> {
    let mut by_endpoint: HashMap<&str, usize> = HashMap::new();
    let mut legs: Vec<Vec<usize>> = Vec::new();
    for (index, passage) in passages.iter().enumerate() {
        let leg = *by_endpoint
            .entry(&passage.way.endpoint)
            .or_insert(legs.len());
        if leg == legs.len() {
            legs.push(Vec::new());
        }
        legs[leg].push(index);
    }
    legs
}

/// Whether other transfers with the peer are likely to fail as well.
fn is_of_peer(error: &RailError) -> bool {
    !matches!(
        error,
        RailError::LocalMemory { .. }
            | RailError::OutOfBounds { .. }
            | RailError::Expired { .. }
            | RailError::Full { .. }
            | RailError::Canceled
    )
}
