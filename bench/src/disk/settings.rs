//! Settings of `perigee bench disk`. Invariant: what is in flight at once fits into what a disk
//! takes at once.

use std::path::PathBuf;

use perigee_flags::{Flag, Program, Settings, ValueKind};
use perigee_ssd::limits::QUEUED_BYTES_MAX;

use crate::error::BenchError;
use crate::limits::{
    BUFFER_BYTES_MAX, DEMOTED_BYTES_PER_CALL, DEMOTING_CALLS, DEPTH_MAX, DISK_SIZES,
    DISK_WRITE_DEPTH,
};
use crate::load::drive::Span;
use crate::report::bytes_text;
use crate::settings;

pub(super) const APPEND: &str = "append";
/// Appends as the owner of a disk makes them: many objects in a call.
pub(super) const DEMOTE: &str = "demote";
pub(super) const READ: &str = "read";
/// The same of a disk that is encrypted.
pub(super) const ENCRYPTED: [(&str, &str); 3] =
    [(APPEND, "append encrypted"), (DEMOTE, "demote encrypted"), (READ, "read encrypted")];
pub(super) const GET: &str = "get";
/// A get by the disk's owner itself; measured with [`GET`].
pub(super) const GET_OWN: &str = "get own";

const WHERE: &[Flag] = &[
    Flag::new("path", ValueKind::Text, ".", "Folder on the disk; what is made in it is removed"),
    Flag::new("pool", ValueKind::SizeBytes, "1GiB", "Bytes of objects that are read at random")
        .within(64 << 20, BUFFER_BYTES_MAX),
];

const LOAD: &[Flag] = &[
    Flag::new("operation", ValueKind::Text, "all", "append, demote, read, get, or all in this order")
        .one_of(&["all", APPEND, DEMOTE, READ, GET]),
    settings::size("0", "Bytes per object; 0 is 128 KiB and 1 MiB"),
    Flag::new(
        "depth",
        ValueKind::Int64,
        "0",
        "Objects in flight, calls of 8 MiB of demote, or objects of one get; 0 is 8 of append, 4 of demote, 1, 8 and 32 of read, and 8 and 64 of get",
    )
    .within(0, DEPTH_MAX),
    settings::DURATION,
    Flag::new("fio", ValueKind::Bool, "true", "Hold rows against fio where it is installed"),
    Flag::new(
        "encrypted",
        ValueKind::Bool,
        "false",
        "Take append, demote and read with encrypted objects, too, held against a disk without a key",
    ),
    settings::ROUNDS,
];

/// The command as its settings see it.
pub(super) const PROGRAM: Program = Program {
    name: "perigee bench disk",
    version: env!("CARGO_PKG_VERSION"),
    summary: "the log of objects on a disk, beside fio",
    variable_prefix: "PERIGEE_BENCH_DISK_",
    words: &[],
    tables: &[("Disk", WHERE), ("Load", LOAD), ("Output", settings::OUTPUT)],
};

/// Examples of the help text.
pub(super) const EXAMPLES: &[&str] = &[
    "perigee bench disk --path /mnt/ssd",
    "perigee bench disk --path /mnt/ssd --operation read --size 1MiB --depth 32",
    "perigee bench disk --path /mnt/ssd --operation get   # by clients, not the log",
    "perigee bench disk --path /mnt/ssd --encrypted   # what a key costs",
];

/// The settings of one run.
#[derive(Debug, Clone)]
pub(super) struct DiskLoad {
    pub(super) path: PathBuf,
    pub(super) pool_bytes: u64,
    pub(super) operations: Vec<&'static str>,
    pub(super) sizes: Vec<u64>,
    depth: u64,
    pub(super) span: Span,
    pub(super) rounds: u32,
    pub(super) with_fio: bool,
    pub(super) encrypted: bool,
}

impl DiskLoad {
    /// Of the values of the flags.
    pub(super) fn of(settings: &Settings) -> Result<Self, BenchError> {
        let read = Self {
            path: settings.text("path").into(),
            pool_bytes: settings.integer("pool"),
            operations: match settings.text("operation") {
                APPEND => vec![APPEND],
                DEMOTE => vec![DEMOTE],
                READ => vec![READ],
                GET => vec![GET],
                _ => vec![APPEND, DEMOTE, READ, GET],
            },
            sizes: match settings.integer("size") {
                0 => DISK_SIZES.to_vec(),
                bytes => vec![bytes],
            },
            depth: settings.integer("depth"),
            span: settings::duration(settings),
            rounds: settings.integer("rounds"),
            with_fio: settings.bool("fio"),
            encrypted: settings.bool("encrypted"),
        };
        read.check()?;
        Ok(read)
    }

    /// How many objects are in flight in each row of an operation.
    pub(super) fn depths(&self, operation: &str) -> Vec<u64> {
        match (self.depth, operation) {
            (0, APPEND) => vec![DISK_WRITE_DEPTH],
            (0, DEMOTE) => vec![DEMOTING_CALLS],
            (0, GET) => vec![DISK_WRITE_DEPTH, 64],
            (0, _) => vec![1, DISK_WRITE_DEPTH, 32],
            (depth, _) => vec![depth],
        }
    }

    /// How many objects of a size one call of an operation has.
    pub(super) fn objects_per_call(&self, operation: &str, bytes: u64) -> u64 {
        if operation == DEMOTE { (DEMOTED_BYTES_PER_CALL / bytes.max(1)).max(1) } else { 1 }
    }

    /// The largest object.
    pub(super) fn largest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    fn check(&self) -> Result<(), BenchError> {
        let in_flight = |operation: &&str| {
            let call =
                self.largest().saturating_mul(self.objects_per_call(operation, self.largest()));
            self.depths(operation).into_iter().max().unwrap_or(1).saturating_mul(call)
        };
        let at_once = self.operations.iter().map(in_flight).max().unwrap_or(0);
        if !self.largest().is_multiple_of(4096) {
            return Err(BenchError::conflict(
                "fio past the page cache needs whole blocks: pass a --size that is a multiple of 4 KiB",
            ));
        }
        if at_once > QUEUED_BYTES_MAX {
            return Err(BenchError::conflict(format!(
                "{} in flight are more than the {} that a disk takes at once; pass a smaller --depth or --size",
                bytes_text(at_once),
                bytes_text(QUEUED_BYTES_MAX)
            )));
        }
        if self.largest() * 8 > self.pool_bytes {
            return Err(BenchError::conflict(format!(
                "A pool of {} has fewer than eight objects of {}; pass a larger --pool",
                bytes_text(self.pool_bytes),
                bytes_text(self.largest())
            )));
        }
        Ok(())
    }
}
