//! Jobs that read from disks of this process: a disk reads into its own memory, and the caller's
//! thread copies from there while the disk reads on. No connection and no shard of the client has a
//! part in it.
//! Invariant: each job has one outcome, and what a call has asked of disks and not yet copied is
//! bounded, because others need the memory of a disk, too.
#![expect(unsafe_code, reason = "it copies into memory of callers")]

use crate::activity::trace_own_disk;
use crate::client::FarJob;
use crate::disk_piece::disk_piece;
use crate::error::TransferError;
use crate::limits::{
    DISK_READ_DEADLINE, OWN_DISK_ASKED_BYTES, OWN_DISK_CALL_BYTES, SLOWEST_PER_BYTE_NS,
};
use crate::segments::SegmentTable;
use perigee_memory::copy::scatter_blocks;
use perigee_memory::limits::BLOCK_BYTES;
use perigee_mover::PeerError;
use perigee_shard::monotonic;
use perigee_ssd::{Answer, Disk, DiskPiece, ReadError, StagedBytes, Unanswered};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

type Read = Result<StagedBytes, ReadError>;
type Results = Vec<(usize, Result<u32, TransferError>)>;

/// Jobs of one disk that are read together.
struct DiskCall {
    disk: Disk,
    jobs: Vec<usize>,
    pieces: Vec<DiskPiece>,
    bytes: u64,
    /// When the disk was asked.
    asked: Duration,
}

/// Jobs on their way.
pub(super) struct DiskJobs<'a> {
    jobs: &'a [FarJob],
    waiting: VecDeque<DiskCall>,
    asked: VecDeque<(DiskCall, Answer<Vec<Read>>)>,
    asked_bytes: u64,
    results: Results,
    /// Of the whole call.
    end: Instant,
}

impl<'a> DiskJobs<'a> {
    /// Begins those of the jobs that read from disks in `own`, and returns the others.
    pub(super) fn begin(
        own: &SegmentTable,
        jobs: &'a [FarJob],
        deadline: Duration,
    ) -> (Self, Vec<usize>) {
        let mut begun = Self::none(jobs, deadline);
        let (mut disks, mut others) = (HashMap::new(), Vec::new());
        for (index, job) in jobs.iter().enumerate() {
            let wanted = job.read_piece().filter(|_| !job.place.is_in_memory());
            let id = job.place.segment.id;
            let mut disk = || disks.entry(id).or_insert_with(|| own.disk(id)).clone();
            match wanted.and_then(|wanted| Some((wanted, disk()?))) {
                Some(((piece, guard), disk)) => match disk_piece(&piece, Some(&guard)) {
                    Some(piece) => begun.add(&disk, index, piece),
                    None => begun.results.push((index, Err(TransferError::Stale))),
                },
                None => others.push(index),
            }
        }
        begun.ask_more();
        (begun, others)
    }

    fn none(jobs: &'a [FarJob], deadline: Duration) -> Self {
        let bytes: u64 = jobs.iter().map(FarJob::bytes).sum();
        let slow = Duration::from_nanos(bytes.saturating_mul(SLOWEST_PER_BYTE_NS));
        let (waiting, asked) = (VecDeque::new(), VecDeque::new());
        let end = Instant::now() + deadline + slow;
        Self { jobs, waiting, asked, asked_bytes: 0, results: Vec::new(), end }
    }

    fn add(&mut self, disk: &Disk, job: usize, piece: DiskPiece) {
        let bytes = u64::from(piece.bytes);
        let id = |job: usize| self.jobs[job].place.segment.id;
        let open = self.waiting.back_mut().filter(|call| {
            id(call.jobs[0]) == id(job) && call.bytes + bytes <= OWN_DISK_CALL_BYTES
        });
        match open {
            Some(call) => {
                call.jobs.push(job);
                call.pieces.push(piece);
                call.bytes += bytes;
            }
            None => {
                let (jobs, pieces) = (vec![job], vec![piece]);
                let (disk, asked) = (disk.clone(), Duration::ZERO);
                self.waiting.push_back(DiskCall { disk, jobs, pieces, bytes, asked });
            }
        }
    }

    /// Asks as long as the bound allows, and at least once.
    fn ask_more(&mut self) {
        let may = |asked: u64, call: &mut DiskCall| {
            asked == 0 || asked + call.bytes <= OWN_DISK_ASKED_BYTES
        };
        while let Some(mut call) = self.waiting.pop_front_if(|call| may(self.asked_bytes, call)) {
            call.asked = monotonic();
            let answer = call.disk.read(call.pieces.clone());
            self.asked_bytes += call.bytes;
            self.asked.push_back((call, answer));
        }
    }

    /// Copies what comes, until all jobs have ended. A caller that breaks off waits for none.
    pub(super) fn wait(mut self) -> Results {
        while let Some((call, answer)) = self.asked.pop_front() {
            let left = self.end.saturating_duration_since(Instant::now());
            let read = answer.wait(left.min(DISK_READ_DEADLINE));
            self.asked_bytes -= call.bytes;
            if matches!(read, Err(Unanswered::Canceled)) {
                self.cancel(call);
                break;
            }
            trace_own_disk(call.bytes, call.asked, read.is_ok());
            self.ask_more();
            self.take(&call, read);
        }
        debug_assert!(self.waiting.is_empty(), "each call was asked");
        self.results
    }

    fn take(&mut self, call: &DiskCall, read: Result<Vec<Read>, Unanswered>) {
        match read {
            Ok(read) => {
                assert_eq!(read.len(), call.jobs.len(), "one answer per job");
                for (job, read) in call.jobs.iter().zip(read) {
                    let copied = read.map_err(error).map(|bytes| copy(&self.jobs[*job], &bytes));
                    self.results.push((*job, copied));
                }
            }
            Err(unanswered) => {
                // Not as what has gone: a disk that is being closed may have it at its next start.
                tracing::debug!(?unanswered, "A disk of this process has not answered");
                let why = || Err(ReadError::Late.into());
                self.results.extend(call.jobs.iter().map(|job| (*job, why())));
            }
        }
    }

    fn cancel(&mut self, first: DiskCall) {
        let asked = self.asked.drain(..).map(|(call, _)| call);
        let calls = std::iter::once(first).chain(asked).chain(self.waiting.drain(..));
        let jobs = calls.flat_map(|call| call.jobs);
        self.results.extend(jobs.map(|job| (job, Err(PeerError::Canceled.into()))));
    }
}

/// An object that is not there any more is looked up again, as one whose memory was given away.
pub(super) fn error(error: ReadError) -> TransferError {
    match error {
        ReadError::Gone => TransferError::Stale,
        error => error.into(),
    }
}

/// Copies to the caller; the CRC-32C of the bytes.
fn copy(job: &FarJob, bytes: &StagedBytes) -> u32 {
    let bytes = bytes.as_slice();
    assert_eq!(bytes.len() as u64, job.bytes(), "as much as was asked for");
    // SAFETY: the caller of the engine keeps its memory valid and unshared for the length of the
    // call, and it has room for the bytes; they stay as they are as long as they are kept.
    unsafe { scatter_blocks(&job.memory, bytes.as_ptr(), BLOCK_BYTES, &mut Vec::new()) }
}
