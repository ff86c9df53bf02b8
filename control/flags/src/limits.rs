//! Bounds on what a program accepts as settings. Invariant: nothing is read without a bound.

/// Largest configuration file in bytes.
pub const CONFIG_FILE_BYTES_MAX: u64 = 1 << 20;

/// Most command line arguments of one start.
pub const ARGUMENTS_MAX: usize = 4096;

/// Most files of flags that one start reads.
pub const FLAG_FILES_MAX: usize = 16;

/// Longest value of one setting in bytes.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;

/// Longest part of a refused value that an error message repeats, in characters.
pub const SHOWN_VALUE_CHARS_MAX: usize = 80;

/// Width of the help texts in characters.
pub const HELP_COLUMNS: usize = 80;
