//! Every bound of the state machine, in one place.
//! Invariant: each loop, table and wait of this crate names the constant here that bounds it.

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = perigee_schemas::limits::KEY_BYTES_MAX;
/// Largest payload of one object in bytes.
pub const OBJECT_BYTES_MAX: u64 = perigee_schemas::limits::OBJECT_BYTES_MAX;
/// Most replicas of one object.
pub const REPLICAS_MAX: u32 = perigee_schemas::limits::REPLICAS_MAX as u32;
/// Most segments mounted at the same time.
pub const SEGMENTS_MAX: usize = perigee_schemas::limits::SEGMENTS_MAX;
/// Most segments of one client...
pub const SEGMENTS_PER_CLIENT_MAX: usize = 1024;
/// ... and of all clients that mount from one address.
pub const SEGMENTS_PER_ADDRESS_MAX: usize = 2048;
/// Most segments whose owner has not answered yet; the one that has waited longest goes for a new
/// one.
pub const SEGMENTS_UNCONFIRMED_MAX: usize = 1024;
/// Milliseconds between two questions to the same owner whether a segment is its own.
pub const CONFIRM_PAUSE_MS: u64 = 2_000;
/// Most clients known at the same time.
pub const CLIENTS_MAX: usize = 65_536;
/// Most of the time between two calls of the registry that counts as its clients' silence, in
/// milliseconds: ticks come every 10 ms, so a master that was paused for longer could not receive
/// heartbeats.
pub const ATTENTION_MS: u64 = 500;
/// Longest graceful unmount in milliseconds (one day).
pub const GRACE_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Longest regular expression in bytes.
pub const PATTERN_BYTES_MAX: usize = perigee_schemas::limits::PATTERN_BYTES_MAX;

/// Alignment in bytes of the parts that a segment is cut into between shards.
pub const SHARE_ALIGNMENT_BYTES: u64 = 4096;

/// Milliseconds during which a shard that was lent nothing evicts at once instead of asking again.
pub const DRY_MS: u64 = 50;
/// Smallest loan that only evens out how full shards are, as a part of the segment: 1 divided by
/// this.
pub const LOAN_PART: u64 = 1024;
/// A shard evicts for another one only if its next victim has been idle for more than this many
/// times as long...
pub const FAIR_IDLE_FACTOR: u64 = 2;
/// ... and for at least this many milliseconds.
pub const FAIR_IDLE_MS: u64 = 1_000;
/// Milliseconds between two marks of the record that tells touches' times...
pub const AGE_MARK_MS: u64 = 250;
/// ... and most marks of it.
pub const AGE_MARKS_MAX: usize = 1024;
/// Segments in which a put that finds no room asks other shards for some.
pub const NEEDS_MAX: usize = 64;
/// Most free extents that a shard hands over at a time, the longest first.
pub const LOANS_MAX: usize = 1 << 15;
/// Segments in which the room of all shards is counted for one object.
pub const GATHER_SEGMENTS_MAX: usize = 16;
/// The same for one object in parts.
pub const GATHER_PARTS_MAX: usize = 256;
/// Times that all shards evict for one object, together as much as it needs each time.
pub const GATHER_ROUNDS_MAX: u64 = EVICTION_WASTE_FACTOR;

/// How many times as old an object counts that was never read, when shards compare their next
/// victims: each of them may have learned another factor.
pub const COLD_AGE_FACTOR: u64 = 3;
/// For how many evictions per object of the shard a key that comes back counts as read. Measured on
/// a published conversation trace: 4 is worth one point of hit rate more than 2, and 8 hardly more.
pub const GHOST_WINDOW: usize = 4;
/// Most keys of the sample from which the adaptive policy learns, 60 bytes each...
pub const SAMPLE_KEYS: usize = 1 << 14;
/// ... and how many times as many keys as the shard has it reaches back, at its rate.
pub const SAMPLE_REACH: usize = 4;
/// Fewest accesses of the sample between two times of learning from it.
pub const LEARN_ACCESSES_MIN: usize = 250;
/// Keys of the sample of which the curves are made; then older ones weigh half.
pub const CURVE_EVENTS_MAX: f32 = 4.0 * SAMPLE_KEYS as f32;
/// How many keys of the sample come back together, before anything was seen.
pub const CURVE_PRIOR_RUNS: f64 = 4.0;
/// By how many standard deviations the learned order must be behind least recently used before that
/// is followed. In a model of the policy with made-up loads, 1.5 lost 0.4 points at most where 2
/// lost 0.7; where the learned order is good after all, 2 won up to 6 points more.
pub const GUARD_DEVIATIONS: f64 = 1.5;
/// By what each pause of the learned order is longer than the one before...
pub const GUARD_PAUSE_GROWTH: u64 = 4;
/// ... up to so many times the keys of the sample that the shard has...
pub const GUARD_PAUSE_MAX: u64 = 1 << 20;
/// ... which are taken for so many at least.
pub const GUARD_ROOM_MIN: usize = 64;
/// So many stored keys of a batch make the others its continuation: one may be a prompt that all
/// share.
pub const CONTINUED_KEYS_MIN: usize = 2;
/// Keys that are remembered as the continuation of stored ones.
pub const CONTINUED_KEYS: usize = 1 << 12;
/// Most buckets (64 bytes each) of the table that remembers evicted keys; it grows with the number
/// of objects.
pub const GHOST_BUCKETS_MAX: usize = 1 << 22;

/// Candidates that `free_ratio_first` looks at, per replica.
pub const FREE_RATIO_SAMPLES_PER_REPLICA: usize = 6;

/// Segments whose victims are compared at a time when a put must evict something.
pub const PRESSURE_SAMPLES: usize = 16;

/// Most that one put evicts from a segment without getting its space there, as a multiple of what
/// it needs...
pub const EVICTION_WASTE_FACTOR: u64 = 4;
/// ... and in bytes, if that is more: what a few small objects need must not stop at the first
/// victims.
pub const EVICTION_WASTE_BYTES: u64 = 64 << 20;

/// Times that a put evicts objects of its own tenant whose quota is used up, while other shards use
/// up what it has gained.
pub const QUOTA_TRIES_MAX: u32 = 4;

/// Milliseconds for which an object stays after its last touch unless a put finds no room: the
/// watermark takes nothing younger.
pub const FRESH_MS: u64 = 1_000;

/// How far below the watermark objects begin to be copied to disks, as a ratio of a segment: so
/// much can be evicted at once while more is on its way.
pub const LOOK_AHEAD_RATIO: f64 = 0.1;
/// Milliseconds in which the budget of a disk flows in once.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Part of a disk's budget, in 1000, from which on everything is admitted...
pub const BUDGET_LEVEL_FREE: u64 = 500;
/// ... from which on what begins a prefix is, too...
pub const BUDGET_LEVEL_SHORT: u64 = 200;
/// ... and below which nothing is.
pub const BUDGET_LEVEL_SPENT: u64 = 10;
/// How much more than that it takes to come back to a level.
pub const BUDGET_LEVEL_RETURN: u64 = 50;
/// Keys of a batch that count as the begin of a prefix.
pub const HEAD_KEYS: usize = 16;
/// Disks that are away whose budget is remembered.
pub const ABSENT_BUDGETS_MAX: usize = 4096;
/// Longest a copy to a disk waits for its owner to take it, in milliseconds.
pub const DEMOTION_WAIT_MS: u64 = 10_000;
/// Pause between two copies to a disk that is full or read-only, to see whether it still is: its
/// owner tries a write as often.
pub const DISK_TRIAL_MS: u64 = 30_000;
/// Most copies to disks that are given up for one replica of a put: a group goes with all of its
/// members...
pub const REVOCATIONS_MAX: usize = 256;
/// ... and how many are looked at, because readers and pins may keep them.
pub const REVOCATION_LOOKS_MAX: usize = 4096;
/// Void copies on one disk that its owner has not confirmed; beyond, it has to announce what it
/// has.
pub const TOMBSTONES_MAX: usize = 1 << 20;
/// Damaged copies of all disks of a shard that wait for their owners to look at them.
pub(crate) const SUSPECTS_MAX: usize = 1024;
/// Periods between the leavings of disks whose changes are kept apart, of up to 2 MiB each; beyond,
/// the oldest ones are one.
pub(crate) const ABSENCE_PERIODS_MAX: usize = 16;
/// Disks that are remembered to have announced what they have; others are strangers when they
/// return.
pub(crate) const DISKS_KNOWN_MAX: usize = 65_536;

/// Replicas whose lease is looked at again in one search for a victim before the search gives up.
pub const VICTIM_STEPS_MAX: u32 = 1 << 16;

/// Groups that one search for a victim moves out of the way per list, because another shard has
/// touched them.
pub const GROUP_STEPS_MAX: u32 = 64;

/// Replicas that one turn of a drain job looks at on a shard.
pub const DRAIN_STEP_REPLICAS: u32 = 1 << 14;

/// Bytes on their way to a disk that count as one step of its queue: queues that differ by less are
/// equally long.
pub const DISK_QUEUE_STEP_BYTES: u64 = 1 << 20;

/// A disk is full from here on, in parts of 2^48: each object takes the place of the oldest ones.
pub const DISK_HAS_ROOM: u128 = (15 << 48) / 16;

/// Most bytes that a disk may be ahead of or behind the others of its owner.
pub const DISK_TURN_BYTES_MAX: i64 = 1 << 30;

/// Replicas that one call of a client that leaves looks at.
pub const LAST_LOOK_REPLICAS: u32 = if cfg!(test) { 1 << 6 } else { 1 << 12 };

/// Milliseconds for which a client that leaves awaits puts into its memory that have begun.
pub const LAST_PUTS_WAIT_MS: u64 = 5_000;

/// Milliseconds between two walks of a drain job over the replicas of a shard.
pub const DRAIN_WALK_PAUSE_MS: u64 = 100;

/// Longest a move may take in milliseconds...
pub const MOVE_DEADLINE_MS: u64 = 60_000;
/// ... and payload bytes that add a millisecond.
pub const MOVE_BYTES_PER_MS: u64 = 16 << 10;

/// Times that a replica is tried again after a failed move.
pub const UNIT_RETRIES_MAX: u32 = 3;

/// Milliseconds until the first of them, doubled each time, and until the next look for room.
pub const RETRY_PAUSE_MS: u64 = 500;

/// Milliseconds for which a job leaves a target alone whose owner did not take a copy.
pub const TARGET_PAUSE_MS: u64 = 3_000;

/// Longest a replica waits for room in a target, in milliseconds.
pub const NO_ROOM_PATIENCE_MS: u64 = 60_000;

/// Replicas whose failed tries a job remembers on a shard; others wait until some of these are
/// through.
pub const UNITS_NOTED_MAX: usize = 1 << 16;

/// Replicas that could not be moved on a shard before the job gives up.
pub const UNITS_FAILED_MAX: usize = 1024;

/// Drain jobs that have not ended.
pub const JOBS_ACTIVE_MAX: usize = 64;

/// Drain jobs that have ended and can still be asked about.
pub const JOBS_ENDED_MAX: usize = 1024;

/// Most moves of one job under way at the same time.
pub const JOB_CONCURRENCY_MAX: u32 = 1024;

/// Tasks that one turn looks at on a shard.
pub const TASK_STEP_MAX: usize = 1024;

/// Moves of tasks on a shard that one client has in hand or is to take: a silent one keeps no more
/// room from others.
pub const TASK_MOVES_PER_CLIENT_MAX: u32 = 64;

/// Segment names in one task.
pub const TASK_TARGETS_MAX: usize = REPLICAS_MAX as usize;

/// Objects that are to have more replicas, on all shards; what is lost beyond is not repaired.
pub const WISHES_MAX: usize = 1 << 20;

/// Copies for repairs under way at the same time, on all shards...
pub const REPAIR_MOVES_MAX: u32 = 64;

/// ... and those on a shard that one client has in hand or is to take.
pub const REPAIR_MOVES_PER_CLIENT_MAX: u32 = 16;

/// Objects that one turn of repairs looks at on a shard.
pub const REPAIR_STEP_MAX: usize = 64;

/// Times that a repair is tried again, after growing pauses of two minutes in all, before it waits
/// for a segment to come.
pub const REPAIR_RETRIES_MAX: u32 = 8;

/// Keys whose reads are counted, on all shards, and as many that are left alone for a while.
pub const HEAT_KEYS_MAX: usize = 50_000;

/// Milliseconds for which a hot key is left alone after it was found...
pub const HEAT_PAUSE_MS: u64 = 30_000;

/// ... and after a replica that it was given was evicted.
pub const HEAT_PAUSE_AFTER_EVICTION_MS: u64 = 60_000;

/// Part of a segment beyond which it takes no replicas of hot keys.
pub const HEAT_ROOM_RATIO: f64 = 0.85;

/// Sizes in bytes that a compiled regular expression is given, the least first; one that needs more
/// is refused.
pub const PROGRAM_BYTES: [usize; 5] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10];

/// Objects that one step of a walk over all keys looks at...
pub const SCAN_STEP_OBJECTS: u32 = 1024;

/// ... unless their keys are expensive to search: bytes of keys times bytes of the program after
/// which a step ends. At worst, when a search cannot use its automaton, that is some milliseconds.
pub const SCAN_STEP_WORK: usize = 16 << 20;

/// Milliseconds after which an object that lies on a disk alone, but has something under way, is
/// looked at again.
pub const PACK_AGAIN_MS: u64 = 1_000;
/// The same where nothing is under way, and what is kept of it fits into no packed record.
pub const PACK_REFUSED_MS: u64 = 600_000;

/// Milliseconds from the start of a master in which owners may announce what an earlier one had put
/// into their segments.
pub const ANNOUNCING_MS: u64 = 600_000;

/// Milliseconds from the start of a master after which an owner that has not announced a replica is
/// taken to have lost it. Those that live mount their segments within a few seconds.
pub const REPAIRS_AFTER_START_MS: u64 = 30_000;

/// Milliseconds from the start of a master in which disks of an earlier life come back, if their
/// owners live: a few heartbeats.
pub const DISKS_RETURN_MS: u64 = 10_000;

/// Owners that keep a removal for the next life of the master.
pub const REMOVAL_KEEPERS_MAX: usize = 3;

/// Removed keys of earlier lives of the master that a shard remembers...
pub const REMOVED_KEYS_MAX: usize = 131_072;

/// Most removals by pattern that are kept for them.
pub const REMOVED_PATTERNS_MAX: usize = 256;

/// Milliseconds from the mount of a segment in which calls wait for what its owner announces.
pub const AWAITED_MS: u64 = 2_000;

/// Milliseconds from the mount of a disk in which nothing is evicted without a copy because the
/// owner has not answered for the disk yet.
pub const DISK_UNCONFIRMED_MS: u64 = 10_000;

/// Bytes of records that wait for the owner of a segment; with more of them it has to begin again.
pub const OUTBOX_BYTES_MAX: usize = 32 << 20;

/// Replicas that one step of telling an owner what lies in its segment looks at.
pub const SNAPSHOT_STEP_REPLICAS: u32 = 1024;

/// Replicas that went which a shard remembers, for operators...
pub const DEPARTURES_MAX: usize = 32_768;

/// ... and those of one key that are shown.
pub const DEPARTURES_SHOWN_MAX: usize = 8;

/// Disks of one client that the master hears of.
pub const DISK_REPORTS_PER_CLIENT_MAX: usize = 64;

/// Void copies that an owner hears of when it follows a segment again.
pub const SNAPSHOT_TOMBSTONES_MAX: usize = 65_536;

/// Bytes of the events of one shard that wait for a publisher.
pub const WAITING_EVENT_BYTES_MAX: usize = 64 << 20;
