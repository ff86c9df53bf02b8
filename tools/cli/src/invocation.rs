//! What the program was started as. Invariant: under one of Mooncake's names all words after it
//! belong to that program, as if it were a program of its own.

use crate::commands::{COMMANDS, Command};

/// Name under which the program has commands.
const OWN_NAME: &str = "perigee";

/// One start of the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// How the program calls itself in messages: `mooncake_master`, `perigee status`.
    pub(crate) program: String,
    /// What it is to do.
    pub(crate) task: Action,
    /// Words after the name or command.
    pub(crate) arguments: Vec<String>,
}

/// What the program is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// One of the commands.
    Run(&'static Command),
    /// Show the overview.
    Help,
    /// Show the version.
    Version,
    /// No command was given.
    Nothing,
    /// A word that is no command.
    Unknown(String),
}

impl Invocation {
    /// Reads the words of the command line; the first is the program's name.
    pub(crate) fn read(words: Vec<String>) -> Self {
        let mut words = words.into_iter();
        let path = words.next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let personality = COMMANDS.iter().find(|command| command.personality == Some(name));
        if let Some(command) = personality {
            return Self {
                program: name.to_owned(),
                task: Action::Run(command),
                arguments: words.collect(),
            };
        }
        Self::of_command(words.next(), words.collect())
    }

    fn of_command(word: Option<String>, mut arguments: Vec<String>) -> Self {
        let mut task = word.map_or(Action::Nothing, Action::of_word);
        // `perigee help master` is `perigee master --help`.
        if task == Action::Help && !arguments.is_empty() {
            task = Action::of_word(arguments.remove(0));
            arguments = vec!["--help".to_owned()];
        }
        let program = match &task {
            Action::Run(command) => format!("{OWN_NAME} {}", command.name),
            _ => OWN_NAME.to_owned(),
        };
        Self { program, task, arguments }
    }
}

impl Action {
    fn of_word(word: String) -> Self {
        match word.as_str() {
            "help" | "--help" | "-help" | "-h" => Self::Help,
            "version" | "--version" | "-version" | "-V" => Self::Version,
            name => match COMMANDS.iter().find(|command| command.name == name) {
                Some(command) => Self::Run(command),
                None => Self::Unknown(word),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> (String, String, Vec<String>) {
        let invocation = Invocation::read(words.iter().map(|word| (*word).to_owned()).collect());
        let task = match invocation.task {
            Action::Run(command) => command.name.to_owned(),
            other => format!("{other:?}"),
        };
        (invocation.program, task, invocation.arguments)
    }

    #[test]
    fn mooncake_names_select_the_program_whatever_the_path() {
        for (path, task) in [
            ("mooncake_master", "master"),
            ("/usr/local/bin/mooncake_master", "master"),
            ("./mooncake_client", "node"),
            ("mooncake_http_metadata_server", "metadata"),
            ("transfer_engine_topology_dump", "topology"),
        ] {
            let (program, found, arguments) = read(&[path, "--port=1", "master"]);
            assert_eq!(program, path.rsplit('/').next().unwrap());
            assert_eq!(found, task);
            assert_eq!(arguments, ["--port=1", "master"]);
        }
    }

    #[test]
    fn other_names_take_a_command() {
        let (program, task, arguments) = read(&["/opt/perigee-0.1", "node", "--port=1"]);
        assert_eq!((program.as_str(), task.as_str()), ("perigee node", "node"));
        assert_eq!(arguments, ["--port=1"]);
    }

    #[test]
    fn help_for_a_command_is_the_commands_own_help() {
        let (_, task, arguments) = read(&["perigee", "help", "status"]);
        assert_eq!((task.as_str(), arguments), ("status", vec!["--help".to_owned()]));
        assert_eq!(read(&["perigee", "--help"]).1, "Help");
    }

    #[test]
    fn words_that_are_no_commands_are_kept_for_the_message() {
        assert_eq!(read(&["perigee", "mastr"]).1, "Unknown(\"mastr\")");
        assert_eq!(read(&["perigee"]).1, "Nothing");
        assert_eq!(Invocation::read(Vec::new()).task, Action::Nothing);
    }
}
