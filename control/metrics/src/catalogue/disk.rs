//! Families of a client's disks. Invariant: each names its disk by the folder that its user has
//! named.

use super::buckets::QUARTER_DURATIONS;
use crate::family::Family;

const PATH: &[&str] = &["path"];

pub(super) const FAMILIES: &[Family] = &[
    Family::gauge(
        "perigee_disk_state",
        "1",
        "1 for the state of a disk, 0 for the others: healthy, slow, hung, full, read_only, failed, withdrawn",
    )
    .labelled(&["path", "state"])
    .ours()
    .of_client(),
    Family::gauge("perigee_disk_capacity_bytes", "bytes", "Most bytes of the log of a disk")
        .labelled(PATH)
        .ours()
        .of_client(),
    Family::gauge(
        "perigee_disk_used_bytes",
        "bytes",
        "Bytes of the log of a disk that can be read; a full log uses its oldest segment again",
    )
    .labelled(PATH)
    .ours()
    .of_client(),
    Family::counter(
        "perigee_disk_written_objects_total",
        "objects",
        "Objects written from memory to a disk",
    )
    .labelled(PATH)
    .ours()
    .of_client(),
    Family::counter(
        "perigee_disk_object_bytes_total",
        "bytes",
        "Bytes of those objects with their sums",
    )
    .labelled(PATH)
    .ours()
    .of_client(),
    Family::counter(
        "perigee_disk_written_bytes_total",
        "bytes",
        "All bytes written to a disk; by the bytes of objects it is the write amplification",
    )
    .labelled(PATH)
    .ours()
    .of_client(),
    Family::counter("perigee_disk_reads_total", "reads", "Parts of objects read from a disk")
        .labelled(PATH)
        .ours()
        .of_client(),
    Family::counter("perigee_disk_read_bytes_total", "bytes", "Bytes of those reads")
        .labelled(PATH)
        .ours()
        .of_client(),
    Family::counter(
        "perigee_disk_joined_reads_total",
        "reads",
        "Those of them whose bytes another read under way has brought",
    )
    .labelled(PATH)
    .ours()
    .of_client(),
    Family::counter(
        "perigee_disk_promotions_total",
        "objects",
        "Objects that were copied from a disk to memory, by whose read brought their bytes: \
         `client`, that of a client, or `own`",
    )
    .labelled(&["path", "read"])
    .ours()
    .of_client(),
    Family::counter(
        "perigee_disk_voided_copies_total",
        "copies",
        "Copies on a disk that were made void",
    )
    .labelled(PATH)
    .ours()
    .of_client(),
    Family::counter(
        "perigee_disk_damaged_copies_total",
        "copies",
        "Copies that a reader could not read and in which the owner of the disk found other bytes than were written",
    )
    .labelled(PATH)
    .ours()
    .of_client(),
    Family::counter(
        "perigee_disk_errors_total",
        "operations",
        "Operations on the files of a disk that failed",
    )
    .labelled(PATH)
    .ours()
    .of_client(),
    Family::histogram(
        "perigee_disk_read_seconds",
        "seconds",
        &QUARTER_DURATIONS,
        "Reads of the files of a disk",
    )
    .labelled(PATH)
    .ours()
    .of_client(),
    Family::histogram(
        "perigee_disk_write_seconds",
        "seconds",
        &QUARTER_DURATIONS,
        "Writes and syncs of the files of a disk",
    )
    .labelled(PATH)
    .ours()
    .of_client(),
];
