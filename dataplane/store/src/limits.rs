//! Bounds of a store client.

use std::time::Duration;

/// Pause between heartbeats.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);
/// Longest a closing client waits for its heartbeat to end.
pub(crate) const HEARTBEAT_STOP: Duration = Duration::from_secs(1);
/// Pause between attempts to mount again after the master was lost.
pub(crate) const REMOUNT_PAUSE: Duration = Duration::from_millis(200);
/// Pause of the mover while the master wants it at work and nothing is to be moved at the moment.
pub(crate) const MOVER_PAUSE: Duration = Duration::from_millis(5);
/// The same after it was asked because a disk is read, and there was nothing.
pub(crate) const ASKED_PAUSE: Duration = Duration::from_millis(20);
/// Longest a closing client waits for its mover to end.
pub(crate) const MOVER_STOP: Duration = Duration::from_secs(1);
/// Moves taken from the master at a time.
pub(crate) const MOVES_PER_FETCH: u32 = 16;
/// Bytes of objects that are moved together; a larger object is moved alone.
pub(crate) const MOVE_GROUP_BYTES: usize = 64 << 20;
/// Tries to report the outcome of moves to a master that does not answer.
pub(crate) const REPORT_TRIES: usize = 3;
/// Times a put is started for keys whose target could not be reached.
pub(crate) const PUT_ATTEMPTS: usize = 3;
/// Times a get looks a key up again after its bytes had been reused.
pub(crate) const GET_ATTEMPTS: usize = 2;
/// Keys in one call to the master; larger batches are cut.
pub(crate) const KEYS_PER_CALL: usize = 8192;
/// Bytes of keys in one call: half of a frame, for what goes with them.
pub(crate) const KEY_BYTES_PER_CALL: usize = perigee_schemas::limits::FRAME_BODY_BYTES_MAX / 2;
/// Segment addresses remembered.
pub(crate) const ADDRESSES_MAX: usize = 65_536;
/// Ports that are given to clients whose host name has none, unless a range is set.
pub(crate) const CLIENT_PORTS: std::ops::RangeInclusive<u16> = 12_300..=14_300;
/// Longest a client waits for a port of a range that is set...
pub(crate) const CLAIM_PATIENCE: Duration = Duration::from_secs(2);
/// ... and the pause between two looks.
pub(crate) const CLAIM_PAUSE: Duration = Duration::from_millis(100);
/// Pause between two log lines about refused bytes.
pub(crate) const REFUSAL_LOG_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two log lines about the same endpoint that cannot be reached.
pub(crate) const UNREACHABLE_LOG_PAUSE: Duration = Duration::from_secs(10);
/// Endpoints that cannot be reached of which the last log line is remembered.
pub(crate) const UNREACHABLE_REMEMBERED_MAX: usize = 256;
/// Longest answer of a node daemon, in bytes: the address of its master and its tenant.
pub(crate) const NODE_ANSWER_BYTES_MAX: u64 = 4096;
/// Bytes of a batch that are read first while its other keys are looked up: copying them takes
/// about as long.
pub(crate) const FIRST_PART_BYTES: usize = 1 << 20;
/// Keys of a batch from which on it is read in two parts.
pub(crate) const TWO_PARTS_KEYS_MIN: usize = 16;
/// Host memory that stands in for device memory in one step of a call, unless one object alone has
/// more.
pub(crate) const STAGED_BYTES_MAX: usize = 64 << 20;
/// Smallest memory through which bytes of devices pass...
pub(crate) const DEVICE_STAGE_BYTES_MIN: usize = 4 << 20;
/// ... and how much of it is kept between calls.
pub(crate) const DEVICE_STAGES_KEPT_BYTES_MAX: usize = 2 * STAGED_BYTES_MAX;
// A device's part of a step never waits for memory that could not be kept.
const _: () = assert!(DEVICE_STAGE_BYTES_MIN <= STAGED_BYTES_MAX);
/// Steps in which the master hears how much memory there is for a segment, while it is less than
/// all of it.
pub(crate) const USABLE_STEP_BYTES: u64 = 16 << 20;
/// Longest pause between two lines about what was read and written, in seconds.
pub(crate) const REPORT_SECONDS_MAX: u64 = 86_400;
/// Longest that a disk takes to open, with all that its log has to be looked at.
pub(crate) const DISK_OPEN_WAIT: Duration = Duration::from_secs(60);
/// Longest that a disk takes to close.
pub(crate) const DISK_CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for a thread or a shard of a disk to begin or to end.
pub(crate) const DISK_STOP: Duration = Duration::from_secs(2);
/// Longest that a disk takes for the objects of one step.
pub(crate) const DISK_WRITE_WAIT: Duration = Duration::from_secs(30);
/// Longest that a disk takes to list what it has.
pub(crate) const DISK_LIST_WAIT: Duration = Duration::from_secs(60);
/// Longest that a disk takes to make copies void.
pub(crate) const BURIAL_WAIT: Duration = Duration::from_secs(10);
/// Copies in which readers found other bytes that are looked at before they are made void...
pub(crate) const EXAMINED_MAX: usize = 64;
/// ... and how long that takes at most.
pub(crate) const EXAMINE_WAIT: Duration = Duration::from_secs(10);
/// Bytes of objects on their way to disks; a disk refuses more than twice as many.
pub(crate) const DEMOTED_BYTES_IN_FLIGHT: u64 = 32 << 20;
/// Demotions taken from the master at a time.
pub(crate) const DEMOTIONS_PER_FETCH: u32 = 256;
/// For how long after a demotion more are likely...
pub(crate) const DEMOTION_BUSY: Duration = Duration::from_secs(10);
/// ... and the pause between two questions then, and otherwise.
pub(crate) const DEMOTION_BUSY_PAUSE: Duration = Duration::from_millis(5);
pub(crate) const DEMOTION_PAUSE: Duration = Duration::from_millis(200);
/// Tombstones taken from the master at a time.
pub(crate) const TOMBSTONES_PER_FETCH: u32 = 4096;
/// Pause between two questions for tombstones.
pub(crate) const KEEPER_PAUSE: Duration = Duration::from_secs(1);
/// Pause before a disk that has failed is tried again; it doubles with each failure...
pub(crate) const DISK_RETRY_MIN: Duration = Duration::from_secs(5);
/// ... and grows no longer than this.
pub(crate) const DISK_RETRY_MAX: Duration = Duration::from_secs(300);
/// How long a disk tries by itself to write again before it is opened again instead.
pub(crate) const DISK_READ_ONLY_MAX: Duration = Duration::from_secs(75);
/// Pause between two looks for folders in a shared directory whose clients have gone, give or take
/// a quarter.
pub(crate) const ADOPTION_LOOK: Duration = Duration::from_secs(10);
/// For how long a folder is left alone that the master does not give.
pub(crate) const ADOPTION_REFUSED: Duration = Duration::from_secs(60);
/// Folders of others that a client takes over after one look, so that all clients get some...
pub(crate) const ADOPTIONS_PER_LOOK: usize = 2;
/// ... and that it has at a time.
pub(crate) const ADOPTED_DISKS_MAX: usize = 8;
/// Pause between two looks at the disks while one is opened or closed, and otherwise.
pub(crate) const DISK_LOOK_SOON: Duration = Duration::from_millis(100);
pub(crate) const DISK_LOOK: Duration = Duration::from_secs(1);
