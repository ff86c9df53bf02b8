//! Settings of the stand-alone metadata service (`mooncake_http_metadata_server`). Invariant:
//! Mooncake's three options keep their names and defaults.

use perigee_flags::{
    Flag, FlagError, LOG_FLAGS, LogSettings, ProcessEnvironment, Program, ProgramStart, ValueKind,
};

/// Largest port number.
const PORT_MAX: i128 = 65_535;

const FLAGS: &[Flag] = &[
    Flag::new("port", ValueKind::Int32, "8080", "Port to listen on; 0 lets the system choose")
        .within(0, PORT_MAX),
    Flag::new("host", ValueKind::Text, "0.0.0.0", "Address to listen on"),
    Flag::new("log_level", ValueKind::Text, "INFO", "Lowest level logged")
        .one_of(&["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]),
];

/// The service as its settings see it.
pub const METADATA_SERVER: Program = Program {
    name: "mooncake_http_metadata_server",
    version: env!("CARGO_PKG_VERSION"),
    summary: "HTTP metadata service that transfer engines register with",
    variable_prefix: "PERIGEE_METADATA_",
    words: &[],
    tables: &[("Serving", FLAGS), ("Logs", LOG_FLAGS)],
};

/// Everything the stand-alone service needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataServerConfig {
    /// Address or host name to listen on.
    pub host: String,
    /// Port; 0 lets the system choose.
    pub port: u16,
    /// Log switches; `log_level` is folded into them.
    pub log: LogSettings,
    /// What the operator should know about these settings.
    pub warnings: Vec<String>,
}

/// Action of a start: serve, or print help or version.
#[derive(Debug)]
pub enum MetadataStart {
    /// Serve with this configuration.
    Serve(MetadataServerConfig),
    /// Print this text on standard output and exit with 0.
    Print(String),
}

impl MetadataServerConfig {
    /// Reads the configuration of a start; `arguments` is without the program name.
    ///
    /// # Errors
    /// Any setting that is unknown or unreadable.
    pub fn load(
        arguments: &[String],
        environment: &ProcessEnvironment,
    ) -> Result<MetadataStart, FlagError> {
        let settings = match METADATA_SERVER.load(arguments, environment)? {
            ProgramStart::Print(text) => return Ok(MetadataStart::Print(text)),
            ProgramStart::Run(settings) => settings,
        };
        let mut log = LogSettings::from_settings(&settings);
        match settings.text("log_level") {
            "DEBUG" => log.verbosity = log.verbosity.max(1),
            "WARNING" => log.min_level = log.min_level.max(1),
            "ERROR" | "CRITICAL" => log.min_level = log.min_level.max(2),
            _ => {}
        }
        Ok(MetadataStart::Serve(Self {
            host: settings.text("host").to_owned(),
            port: settings.integer("port"),
            log,
            warnings: settings.warnings().to_vec(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(arguments: &[&str]) -> Result<MetadataServerConfig, FlagError> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        match MetadataServerConfig::load(&arguments, &ProcessEnvironment::default())? {
            MetadataStart::Serve(config) => Ok(config),
            MetadataStart::Print(text) => panic!("printed {text}"),
        }
    }

    #[test]
    fn table_is_sound_and_defaults_are_mooncakes() {
        assert_eq!(METADATA_SERVER.check(), Vec::<String>::new());
        let config = load(&[]).unwrap();
        assert_eq!((config.host.as_str(), config.port), ("0.0.0.0", 8080));
    }

    #[test]
    fn options_are_read_in_the_python_spelling() {
        let config = load(&["--host", "127.0.0.1", "--port", "0", "--log-level", "ERROR"]).unwrap();
        assert_eq!((config.host.as_str(), config.port, config.log.min_level), ("127.0.0.1", 0, 2));
    }

    #[test]
    fn unknown_levels_and_ports_are_refused() {
        assert!(load(&["--log-level=LOUD"]).is_err());
        assert!(load(&["--port=70000"]).is_err());
    }
}
