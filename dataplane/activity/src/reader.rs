//! Reading the page of another process. Its bytes are not trusted: any of them may be anything, and
//! the file may shrink at any moment, so it is read and never mapped.

pub(crate) mod marks;
mod ring_entry;
pub(crate) mod spans;

use crate::disk_cells::DISK_BYTES;
use crate::disk_reading::DiskReading;
use crate::layout::{
    DISKS_OFFSET, HEADER_BYTES, LINK_BYTES, LINKS_OFFSET, LinkKey, MAGIC, OLDER_LINK_BYTES,
    OLDER_VERSION, PageHeader, QUARTERS, QUARTERS_BYTES, QUARTERS_OFFSET, SLOT_BYTES, SlotKey,
    VERSION, text,
};
use crate::limits::{DISKS, LATENCY_BUCKETS, LINKS, SLOTS};
use crate::link_wait::LinkWait;
use crate::socket_counters::SocketCounters;
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The page of a process.
#[derive(Debug)]
pub struct PageReader {
    file: File,
    path: PathBuf,
    pid: u32,
    program: String,
    network: u64,
    group: u64,
    is_ended: bool,
    /// Of one link, which depends on the page's version.
    link_bytes: usize,
}

/// The counters of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotReading {
    /// What was counted.
    pub key: SlotKey,
    /// Finished operations.
    pub operations: u64,
    /// Payload bytes of them.
    pub bytes: u64,
    /// Nanoseconds on the wire or disk, summed.
    pub latency_ns: u64,
    /// Nanoseconds in queues before that, summed.
    pub queue_ns: u64,
    /// Failed operations.
    pub errors: u64,
    /// Repeated operations.
    pub retries: u64,
    /// Operations under way.
    pub depth: u64,
    /// Operations by latency: bucket `n` holds `[2^n, 2^(n+1))` ns.
    pub buckets: [u64; LATENCY_BUCKETS],
    /// Those of the powers that matter in four buckets of the same width each; empty in the page of
    /// an older build.
    pub quarters: Vec<u64>,
    /// Nanoseconds of `latency_ns` in which the peer was ready but had no core; 0 in the page of an
    /// older build, as the two that follow.
    pub waited_ns: u64,
    /// Nanoseconds of it in which the peer judged, summed and staged bytes.
    pub copied_ns: u64,
    /// Nanoseconds of it in which the peer read from disks.
    pub disk_ns: u64,
}

/// One connection of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReading {
    /// NIC.
    pub device: String,
    /// Address of the peer.
    pub peer: String,
    /// Exchanges with the peer.
    pub operations: u64,
    /// Nanoseconds that they took, summed.
    pub wire_ns: u64,
    /// The part of them that the connection does not explain.
    pub peer_ns: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Smoothed round trip time in microseconds.
    pub round_trip_us: u64,
    /// The shortest of the last minutes.
    pub round_trip_min_us: u64,
    /// Segments that may be under way.
    pub window_segments: u64,
    /// The last rate at which data arrived while there was enough to send.
    pub delivery_bytes_per_second: u64,
    /// When the socket said so, in milliseconds since 1970; 0 for a connection that is over.
    pub looked_ms: u64,
    /// Payload bytes of all exchanges; 0 in the page of an older build.
    pub bytes: u64,
    /// This side asks. Round trips of an end that only answers contain the pauses of the peer,
    /// which acknowledges an answer with its next request.
    pub asks: bool,
    /// Nanoseconds of `wire_ns` in which the peer was ready but had no core; 0 in the page of an
    /// older build, as all that follows.
    pub waited_ns: u64,
    /// Nanoseconds of it in which the peer judged, summed and staged bytes.
    pub copied_ns: u64,
    /// Nanoseconds of it in which the peer read from disks.
    pub disk_ns: u64,
    /// Payload bytes that came behind answers.
    pub arrived_bytes: u64,
    /// Nanoseconds that they took, from their answers on.
    pub arrived_ns: u64,
    /// What the kernel counted.
    pub socket: SocketCounters,
    /// The wait for an answer that is under way.
    pub wait: Option<LinkWait>,
}

impl PageReader {
    /// Opens a page; `is_ended` if its process held no lock on it any more.
    ///
    /// # Errors
    /// It is too short, no page, or of a version this build does not know.
    pub(crate) fn open(file: File, path: &Path, is_ended: bool) -> io::Result<Self> {
        let mut header = [0; size_of::<PageHeader>()];
        file.read_exact_at(&mut header, 0)?;
        let number = |offset: usize| u32::from_ne_bytes(word(&header, offset));
        let link_bytes = match number(offset_of!(PageHeader, version)) {
            VERSION => Some(LINK_BYTES),
            OLDER_VERSION => Some(OLDER_LINK_BYTES),
            _ => None,
        };
        let known = u64::from_ne_bytes(word(&header, offset_of!(PageHeader, magic))) == MAGIC
            && number(offset_of!(PageHeader, slot_bytes)) as usize == SLOT_BYTES
            && number(offset_of!(PageHeader, header_bytes)) as usize == HEADER_BYTES;
        let Some(link_bytes) = link_bytes.filter(|_| known) else {
            let text = format!("The page is not of version {OLDER_VERSION} or {VERSION}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        let program = &header[offset_of!(PageHeader, program)..][..32];
        let program = text(program);
        let pid = number(offset_of!(PageHeader, pid));
        Ok(Self {
            file,
            path: path.to_owned(),
            pid,
            program,
            network: u64::from_ne_bytes(word(&header, offset_of!(PageHeader, network))),
            group: u64::from_ne_bytes(word(&header, offset_of!(PageHeader, group))),
            is_ended,
            link_bytes,
        })
    }

    /// Where the page lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and number of its file, as the kernel's list of locks tells them; `None` if the
    /// system does not say.
    pub fn file_id(&self) -> Option<(u64, u64)> {
        let file = self.file.metadata().ok()?;
        Some((file.dev(), file.ino()))
    }

    /// Whether its process had ended when the page was opened: it changes no more.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether its process still lives.
    pub fn is_held(&self) -> bool {
        let again = self.file.try_clone();
        again.is_ok_and(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err())
    }

    /// Process number, as its own namespace counts.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Number of the network namespace that its NICs are in; `None` in the page of an older build.
    pub fn network(&self) -> Option<u64> {
        Some(self.network).filter(|network| *network != 0)
    }

    /// Number of the control group of version 2 in which the page was made; `None` if its process
    /// could not see that.
    pub fn group(&self) -> Option<u64> {
        Some(self.group).filter(|group| *group != 0)
    }

    /// Name of the program.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// All slots that were ever used. Counters of one slot may be an operation apart.
    ///
    /// # Errors
    /// The page has shrunk.
    pub fn slots(&self) -> io::Result<Vec<SlotReading>> {
        let used = self.number(offset_of!(PageHeader, used))?.min(SLOTS);
        let mut bytes = vec![0; used * SLOT_BYTES];
        self.file.read_exact_at(&mut bytes, HEADER_BYTES as u64)?;
        let quarters = self.quarters(used)?;
        let quarters = quarters.chunks(QUARTERS).map(<[u64]>::to_vec);
        let slots =
            bytes.chunks_exact(SLOT_BYTES).zip(quarters.chain(std::iter::repeat(Vec::new())));
        Ok(slots.filter_map(|(bytes, quarters)| SlotReading::decode(bytes, quarters)).collect())
    }

    /// The finer buckets of so many slots, one behind the other; none in the page of an older
    /// build.
    fn quarters(&self, slots: usize) -> io::Result<Vec<u64>> {
        if self.number(offset_of!(PageHeader, quarters))? != QUARTERS {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; slots * QUARTERS_BYTES];
        self.file.read_exact_at(&mut bytes, QUARTERS_OFFSET as u64)?;
        Ok(bytes.chunks_exact(8).map(|chunk| u64::from_ne_bytes(word(chunk, 0))).collect())
    }
}

impl PageReader {
    /// All connections that were ever used; none in the page of an older build.
    ///
    /// # Errors
    /// The page has shrunk.
    pub fn links(&self) -> io::Result<Vec<LinkReading>> {
        let room = self.number(offset_of!(PageHeader, links))?.min(LINKS);
        let used = self.number(offset_of!(PageHeader, links_used))?.min(room);
        let mut bytes = vec![0; used * self.link_bytes];
        self.file.read_exact_at(&mut bytes, LINKS_OFFSET as u64)?;
        let links = bytes.chunks_exact(self.link_bytes);
        Ok(links.filter_map(LinkReading::decode).collect())
    }

    /// The disks of the process that are whole at the moment; none in the page of an older build.
    ///
    /// # Errors
    /// The page has shrunk.
    pub fn disks(&self) -> io::Result<Vec<DiskReading>> {
        let room = self.number(offset_of!(PageHeader, disks))?;
        if room != DISKS {
            return Ok(Vec::new());
        }
        let used = self.number(offset_of!(PageHeader, disks_used))?.min(room);
        let (mut one, mut other) = (vec![0; used * DISK_BYTES], vec![0; used * DISK_BYTES]);
        self.file.read_exact_at(&mut one, DISKS_OFFSET as u64)?;
        self.file.read_exact_at(&mut other, DISKS_OFFSET as u64)?;
        let copies = one.chunks_exact(DISK_BYTES).zip(other.chunks_exact(DISK_BYTES));
        Ok(copies.filter_map(|(one, other)| DiskReading::decode(one, other)).collect())
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: usize) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset as u64)
    }

    fn number(&self, offset: usize) -> io::Result<usize> {
        let mut bytes = [0; 4];
        self.read_at(&mut bytes, offset)?;
        Ok(u32::from_ne_bytes(bytes) as usize)
    }
}

impl LinkReading {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let words = bytes.chunks_exact(8);
        let mut words = words.map(|chunk| u64::from_ne_bytes(word(chunk, 0)));
        let mut next = || words.next();
        let key = [next()?, next()?, next()?, next()?, next()?, next()?, next()?, next()?];
        let (device, peer) = LinkKey::decode(key).names();
        Some(Self {
            device,
            peer,
            operations: next()?,
            wire_ns: next()?,
            peer_ns: next()?,
            retransmits: next()?,
            round_trip_us: next()?,
            round_trip_min_us: next()?,
            window_segments: next()?,
            delivery_bytes_per_second: next()?,
            looked_ms: next()?,
            bytes: next()?,
            asks: next()? == 1,
            waited_ns: next().unwrap_or(0),
            copied_ns: next().unwrap_or(0),
            disk_ns: next().unwrap_or(0),
            arrived_bytes: next().unwrap_or(0),
            arrived_ns: next().unwrap_or(0),
            socket: SocketCounters::decode(std::array::from_fn(|_| next().unwrap_or(0))),
            wait: LinkWait::of(next().unwrap_or(0)),
        })
    }
}

impl SlotReading {
    fn decode(bytes: &[u8], quarters: Vec<u64>) -> Option<Self> {
        let mut words = bytes.chunks_exact(8).map(|chunk| u64::from_ne_bytes(word(chunk, 0)));
        let mut next = || words.next();
        Some(Self {
            key: SlotKey::decode([next()?, next()?, next()?, next()?])?,
            operations: next()?,
            bytes: next()?,
            latency_ns: next()?,
            queue_ns: next()?,
            errors: next()?,
            retries: next()?,
            depth: next()?,
            buckets: std::array::from_fn(|_| next().unwrap_or(0)),
            quarters,
            waited_ns: next()?,
            copied_ns: next()?,
            disk_ns: next()?,
        })
    }
}

pub(crate) fn word<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[offset..offset + N]);
    word
}
