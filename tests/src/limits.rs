//! Deadlines and sizes of the system tests. Deadlines are generous: they end a hang, they time
//! nothing.

use std::time::Duration;

/// A program answers on its ports within this time of its start.
pub const START_DEADLINE: Duration = Duration::from_secs(30);
/// A program ends within this time of being asked, or of finding its flags wrong.
pub const EXIT_DEADLINE: Duration = Duration::from_secs(20);
/// One answer on a socket.
pub const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// A change that needs heartbeats, expiry or a remount to be seen.
pub const MEMBERSHIP_DEADLINE: Duration = Duration::from_secs(40);
/// One call of a store client while a node it needs is frozen: it gives up by itself and tries
/// other places, while the master expires the node.
pub const FROZEN_NODE_CALL_DEADLINE: Duration = Duration::from_secs(60);
/// One call of a store client whose peers refuse connections or answer.
pub const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// A call that fails without asking the master: far less than the patience of one that asks.
pub const REFUSED_CALL_DEADLINE: Duration = Duration::from_secs(1);
/// Pause between two looks at a condition.
pub const POLL_PAUSE: Duration = Duration::from_millis(10);

/// Seconds after which the tests' masters give up a silent client.
pub const CLIENT_TTL_SECONDS: u64 = 2;
/// Another program may take a port between our asking and the program's binding.
pub const START_TRIES: usize = 3;
/// Most bytes of a log shown when a test fails.
pub const LOG_TAIL_BYTES: usize = 8 << 10;
/// What unfinished frames of all connections of a master may hold.
pub const FRAME_BUDGET_BYTES: u64 = 256 << 20;
/// What hostile input may cost a program in resident memory.
pub const HOSTILE_GROWTH_BYTES_MAX: u64 = 96 << 20;
