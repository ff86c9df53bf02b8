//! Which lines are logged. Invariant: the libraries we use never speak below a warning unless
//! PERIGEE_LOG asks for it, and glommio not below an error: it warns of memory that cannot be
//! locked, in four lines a shard, and of that we warn ourselves where it has consequences.

use perigee_flags::{FlagError, LogSettings, Origin, ProcessEnvironment};
use perigee_settings::Variables;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Variable with a filter that replaces all switches, for example `perigee_store=debug,info`.
const FILTER_VARIABLE: &str = "PERIGEE_LOG";

/// Beginning of the targets of all our crates.
const OWN_TARGETS: &str = "perigee";

/// The filter of a start.
pub(super) fn of(
    settings: &LogSettings,
    environment: &ProcessEnvironment,
) -> Result<Targets, FlagError> {
    if let Some(text) = environment.get(FILTER_VARIABLE) {
        return text.parse().map_err(|_| FlagError::BadValue {
            name: "log filter",
            value: text.chars().take(80).collect(),
            origin: Origin::Variable(FILTER_VARIABLE.to_owned()),
            expected: "levels such as info or perigee_store=debug,info".to_owned(),
        });
    }
    let level = level_of(settings, named_level(environment)?);
    let modules = settings.module_verbosity.iter().map(|(module, verbosity)| {
        let target = match module.strip_prefix(OWN_TARGETS) {
            Some(_) => module.clone(),
            None => format!("{OWN_TARGETS}_{module}"),
        };
        (target, verbose_level(*verbosity))
    });
    Ok(Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("glommio", level.min(LevelFilter::ERROR))
        .with_target(OWN_TARGETS, level)
        .with_targets(modules))
}

/// The level that `MC_LOG_LEVEL` names.
fn named_level(environment: &ProcessEnvironment) -> Result<Option<LevelFilter>, FlagError> {
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    match perigee_settings::log_level(&Variables::new(&variable)) {
        Ok(level) => Ok(level.and_then(|level| level.parse().ok())),
        Err(error) => Err(FlagError::Conflict(format!("Environment variable {error}"))),
    }
}

/// Switches win over the variable.
fn level_of(settings: &LogSettings, named: Option<LevelFilter>) -> LevelFilter {
    if let (Some(level), 0, 0) = (named, settings.min_level, settings.verbosity) {
        return level;
    }
    match settings.min_level {
        ..=0 => verbose_level(settings.verbosity),
        1 => LevelFilter::WARN,
        2.. => LevelFilter::ERROR,
    }
}

fn verbose_level(verbosity: i32) -> LevelFilter {
    match verbosity {
        ..=0 => LevelFilter::INFO,
        1 => LevelFilter::DEBUG,
        2.. => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    fn settings(verbosity: i32, min_level: i32) -> LogSettings {
        LogSettings {
            verbosity,
            module_verbosity: vec![("rpc".to_owned(), 2)],
            min_level,
            directory: None,
            also_stderr: false,
            stderr_threshold: 2,
            rotate_bytes: 1 << 20,
        }
    }

    fn filter(verbosity: i32, min_level: i32) -> Targets {
        of(&settings(verbosity, min_level), &ProcessEnvironment::default()).unwrap()
    }

    #[test]
    fn verbosity_and_lowest_level_choose_our_level() {
        assert!(filter(0, 0).would_enable("perigee_store::get", &Level::INFO));
        assert!(!filter(0, 0).would_enable("perigee_store::get", &Level::DEBUG));
        assert!(filter(1, 0).would_enable("perigee_store", &Level::DEBUG));
        assert!(filter(9, 0).would_enable("perigee_store", &Level::TRACE));
        assert!(!filter(9, 1).would_enable("perigee_store", &Level::INFO));
        assert!(!filter(0, 2).would_enable("perigee_store", &Level::WARN));
    }

    #[test]
    fn one_module_can_be_louder() {
        assert!(filter(0, 0).would_enable("perigee_rpc::client", &Level::TRACE));
    }

    #[test]
    fn mooncakes_variable_sets_the_level_unless_a_switch_does() {
        let with = |verbosity, value| {
            let environment = ProcessEnvironment::of(&[("MC_LOG_LEVEL", value)]);
            of(&settings(verbosity, 0), &environment)
        };
        assert!(!with(0, "ERROR").unwrap().would_enable("perigee_store", &Level::WARN));
        assert!(with(0, "TRACE").unwrap().would_enable("perigee_store", &Level::TRACE));
        assert!(with(1, "ERROR").unwrap().would_enable("perigee_store", &Level::DEBUG));
        assert!(with(0, "loud").unwrap_err().to_string().contains("MC_LOG_LEVEL"));
    }

    #[test]
    fn libraries_are_quiet() {
        assert!(filter(2, 0).would_enable("hyper", &Level::WARN));
        assert!(!filter(2, 0).would_enable("hyper", &Level::INFO));
    }

    #[test]
    fn the_variable_replaces_the_switches_or_is_refused() {
        let with = |text| of(&settings(0, 0), &ProcessEnvironment::of(&[(FILTER_VARIABLE, text)]));
        let filter = with("perigee_store=debug,error").unwrap();
        assert!(filter.would_enable("perigee_store", &Level::DEBUG));
        assert!(!filter.would_enable("perigee_node", &Level::INFO));
        assert!(with("perigee=loud").unwrap_err().to_string().contains("PERIGEE_LOG"));
    }
}
