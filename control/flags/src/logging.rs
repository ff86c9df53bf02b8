//! The glog and gflags switches every Mooncake program accepts. Invariant: all programs share this
//! table, so a log switch means the same everywhere.

use crate::flag::{Flag, ValueKind};
use crate::settings::Settings;
use std::path::PathBuf;

const NO_MAIL: &str = "log messages are never mailed";
const UNBUFFERED: &str = "log lines are written at once";

/// Log switches; add this group to each program's tables.
pub const LOG_FLAGS: &[Flag] = &[
    Flag::new("v", ValueKind::Int32, "0", "Verbosity: 0 information, 1 debug, 2 and above trace")
        .within(-4, 100),
    Flag::new(
        "vmodule",
        ValueKind::Text,
        "",
        "Verbosity per module: name=level, separated by commas",
    ),
    Flag::new(
        "minloglevel",
        ValueKind::Int32,
        "0",
        "Lowest level logged: 0 information, 1 warning, 2 and 3 error",
    )
    .within(0, 3),
    Flag::new(
        "logtostderr",
        ValueKind::Bool,
        "false",
        "Write logs to standard error only, not to log_dir",
    ),
    Flag::new(
        "alsologtostderr",
        ValueKind::Bool,
        "false",
        "Write logs to standard error and to log_dir",
    ),
    Flag::new(
        "stderrthreshold",
        ValueKind::Int32,
        "2",
        "With log_dir: level from which messages also go to standard error",
    )
    .within(0, 3),
    Flag::new(
        "log_dir",
        ValueKind::Text,
        "",
        "Directory of the log file; empty writes to standard error",
    )
    .variables(&["MC_LOG_DIR"]),
    Flag::new(
        "max_log_size",
        ValueKind::Int32,
        "1800",
        "Size in MiB at which the log file is rotated; 0 means 1",
    )
    .within(0, 1 << 20),
    Flag::new("colorlogtostderr", ValueKind::Bool, "false", "Colours on standard error")
        .ignored("logs are plain text"),
    Flag::new("log_prefix", ValueKind::Bool, "true", "Prefix of log lines").ignored("always on"),
    Flag::new("log_link", ValueKind::Text, "", "Further links to the log file")
        .ignored("there is one log file"),
    Flag::new("log_backtrace_at", ValueKind::Text, "", "Backtrace at a source line")
        .ignored("not available"),
    Flag::new("logbuflevel", ValueKind::Int32, "0", "Level up to which lines are buffered")
        .ignored(UNBUFFERED),
    Flag::new("logbufsecs", ValueKind::Int32, "30", "Seconds lines are buffered")
        .ignored(UNBUFFERED),
    Flag::new("logfile_mode", ValueKind::Int32, "436", "Mode bits of log files")
        .ignored("the umask decides"),
    Flag::new("drop_log_memory", ValueKind::Bool, "true", "Drop written log pages from memory")
        .ignored("not needed"),
    Flag::new("stop_logging_if_full_disk", ValueKind::Bool, "false", "Stop logging on a full disk")
        .ignored("a full disk never stops the program"),
    Flag::new("alsologtoemail", ValueKind::Text, "", "Mail addresses").ignored(NO_MAIL),
    Flag::new("logemaillevel", ValueKind::Int32, "999", "Level that is mailed").ignored(NO_MAIL),
    Flag::new("logmailer", ValueKind::Text, "/bin/mail", "Mail program").ignored(NO_MAIL),
    Flag::new("symbolize_stacktrace", ValueKind::Bool, "true", "Symbols in traces")
        .ignored("always on"),
    Flag::new("flagfile", ValueKind::Text, "", "Files with a flag in each line, by commas"),
    Flag::new("fromenv", ValueKind::Text, "", "Flags that variables FLAGS_name give, by commas"),
    Flag::new("tryfromenv", ValueKind::Text, "", "As fromenv, but they need not be set"),
    Flag::new("undefok", ValueKind::Text, "", "Names, by commas, that are passed over if unknown"),
];

/// The log switches as values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// 0 information, 1 debug, 2 and above trace.
    pub verbosity: i32,
    /// `name=level` pairs.
    pub module_verbosity: Vec<(String, i32)>,
    /// 0 information, 1 warning, 2 and 3 error.
    pub min_level: i32,
    /// Directory of the log file; `None` means standard error only.
    pub directory: Option<PathBuf>,
    /// All lines also go to standard error.
    pub also_stderr: bool,
    /// Level from which lines go to standard error even with a directory.
    pub stderr_threshold: i32,
    /// Size at which the log file is rotated, in bytes.
    pub rotate_bytes: u64,
}

impl LogSettings {
    /// Reads the log switches; `logtostderr` wins over `log_dir`. Malformed parts of `vmodule`
    /// are left out, as glog does.
    #[must_use]
    pub fn from_settings(settings: &Settings) -> Self {
        let pair = |part: &str| {
            let (name, level) = part.split_once('=')?;
            Some((name.trim().to_owned(), level.trim().parse().ok()?))
        };
        let to_file = settings.optional_text("log_dir").filter(|_| !settings.bool("logtostderr"));
        Self {
            verbosity: settings.integer("v"),
            module_verbosity: settings.text("vmodule").split(',').filter_map(pair).collect(),
            min_level: settings.integer("minloglevel"),
            directory: to_file.map(PathBuf::from),
            also_stderr: settings.bool("alsologtostderr"),
            stderr_threshold: settings.integer("stderrthreshold"),
            rotate_bytes: settings.integer::<u64>("max_log_size").max(1) << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag::FlagSupport;

    #[test]
    fn switches_that_every_program_has_point_to_no_flag_that_only_some_have() {
        for flag in LOG_FLAGS {
            let text = match flag.state {
                FlagSupport::NotBuilt(text)
                | FlagSupport::Guarantee(text)
                | FlagSupport::Deprecated(text)
                | FlagSupport::Ignored(text) => text,
                FlagSupport::Built => "",
            };
            let text = format!("{} {text}", flag.help);
            let named = text.split("--").skip(1);
            for name in named.filter_map(|rest| rest.split(' ').next()) {
                let is_own = |flag: &Flag| flag.name == name;
                assert!(LOG_FLAGS.iter().any(is_own), "{}: {text}", flag.name);
            }
        }
    }
}
