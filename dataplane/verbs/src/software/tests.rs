//! The software fabric does what devices do, and what the test asked to go wrong.

mod bench;
mod faults;
mod moving;
mod waking;
