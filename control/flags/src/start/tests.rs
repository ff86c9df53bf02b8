//! How settings are merged, for the command line, the environment and files. Invariant: no test
//! reads the environment of the test process.

use super::*;
use crate::{LOG_FLAGS, LogSettings};

const FLAGS: &[Flag] = &[
    Flag::new("config_path", ValueKind::Text, "", "File"),
    Flag::new("port", ValueKind::Int32, "50051", "Port").within(0, 65535),
    Flag::new("client_ttl", ValueKind::Int64, "10", "Seconds").aliases(&["client_live_ttl_sec"]),
    Flag::new("verify", ValueKind::Bool, "true", "Check bytes"),
    Flag::new("cluster", ValueKind::Text, "mine", "Name")
        .variables(&["OLD_CLUSTER", "OLDER_CLUSTER"]),
    Flag::new("lease", ValueKind::DurationMs, "10000", "Lease"),
    Flag::new("enable_warp", ValueKind::Bool, "false", "Warp").not_built("warp drive"),
    Flag::new("warp_factor", ValueKind::Double, "1", "Warp").not_built("warp drive"),
    Flag::new("list", ValueKind::Text, "none", "List").one_of(&["none", "set", "all"]).alone("set"),
    Flag::new("old_name", ValueKind::Text, "", "Old").deprecated("use cluster"),
];

const PROGRAM: Program = Program {
    name: "perigee_test",
    version: "1.2.3",
    summary: "A program for tests",
    variable_prefix: "PERIGEE_TEST_",
    words: &[],
    tables: &[("General", FLAGS), ("Logs", LOG_FLAGS)],
};

fn load(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Settings, FlagError> {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    match PROGRAM.load(&arguments, &ProcessEnvironment::of(variables))? {
        ProgramStart::Run(settings) => Ok(settings),
        ProgramStart::Print(text) => panic!("printed {text}"),
    }
}

fn port_of(arguments: &[&str]) -> Result<u16, String> {
    load(arguments, &[]).map(|settings| settings.integer("port")).map_err(|error| error.to_string())
}

fn file_with(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, format!("--config_path={}", path.display()))
}

#[test]
fn table_of_the_tests_is_sound() {
    assert_eq!(PROGRAM.check(), Vec::<String>::new());
}

#[test]
fn all_gflags_spellings_are_read() {
    for arguments in [&["--port=7"][..], &["--port", "7"], &["-port=7"], &["-port", "7"]] {
        assert_eq!(port_of(arguments), Ok(7), "{arguments:?}");
    }
    let settings = load(&["--client-live-ttl-sec=5"], &[]).unwrap();
    assert_eq!(settings.integer::<u64>("client_ttl"), 5);
}

#[test]
fn yes_no_flags_take_all_their_forms() {
    for (arguments, expected) in [
        (&["--verify"][..], true),
        (&["--noverify"], false),
        (&["--verify=false"], false),
        (&["--verify=0"], false),
        (&["--verify", "false"], false),
        (&["--verify", "--port=1"], true),
    ] {
        assert_eq!(load(arguments, &[]).unwrap().bool("verify"), expected, "{arguments:?}");
    }
}

#[test]
fn a_flag_that_may_stand_alone_takes_its_value_only_behind_an_equals_sign() {
    for (arguments, expected) in [
        (&[][..], "none"),
        (&["--list"], "set"),
        (&["--list", "--port=1"], "set"),
        (&["--list=all"], "all"),
    ] {
        assert_eq!(load(arguments, &[]).unwrap().text("list"), expected, "{arguments:?}");
    }
    assert!(load(&["--list=some"], &[]).is_err());
    assert!(load(&["--list", "all"], &[]).is_err());
}

#[test]
fn last_value_of_a_repeated_flag_wins() {
    assert_eq!(port_of(&["--port=1", "--port=2"]), Ok(2));
}

#[test]
fn unknown_flag_is_refused_with_a_suggestion_and_exit_code_two() {
    let error = load(&["--prot=1"], &[]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("did you mean `port`?"), "{error}");
    for argument in ["--noport", "--zzzzzz", "--noverify=true"] {
        assert!(matches!(load(&[argument], &[]), Err(FlagError::Unknown { .. })), "{argument}");
    }
}

#[test]
fn stray_arguments_and_missing_values_are_refused() {
    assert!(matches!(load(&["50051"], &[]), Err(FlagError::UnexpectedArgument { .. })));
    assert!(matches!(load(&["--"], &[]), Err(FlagError::UnexpectedArgument { .. })));
    assert_eq!(load(&["--port"], &[]).unwrap_err(), FlagError::MissingValue { name: "port" });
}

const COMPARE: Program = Program { words: &["BEFORE", "AFTER"], ..PROGRAM };

fn words_of(arguments: &[&str]) -> Result<(u16, Vec<String>), String> {
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    match COMPARE.load(&arguments, &ProcessEnvironment::of(&[])) {
        Ok(ProgramStart::Run(settings)) => {
            Ok((settings.integer("port"), settings.words().to_vec()))
        }
        Ok(ProgramStart::Print(text)) => Ok((0, vec![text])),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn words_stand_anywhere_between_flags_in_all_their_spellings() {
    for arguments in [
        &["--port=7", "a", "b"][..],
        &["--port", "7", "a", "b"],
        &["a", "-port", "7", "b"],
        &["a", "b", "--port=7"],
        &["--verify", "a", "--port", "7", "--", "b"],
    ] {
        let words = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(words_of(arguments), Ok((7, words)), "{arguments:?}");
    }
    let (_, words) = words_of(&["-", "--", "--port=7"]).unwrap();
    assert_eq!(words, ["-", "--port=7"]);
}

#[test]
fn too_few_and_too_many_words_are_refused_with_the_call() {
    for (arguments, count) in [(&[][..], 0), (&["a"], 1), (&["a", "b", "c"], 3)] {
        let error = words_of(arguments).unwrap_err();
        let start = format!("{count} words given");
        assert!(error.starts_with(&start), "{error}");
        assert!(error.ends_with("write perigee_test BEFORE AFTER"), "{error}");
    }
    let (_, help) = words_of(&["--help"]).unwrap();
    assert!(help[0].contains("Usage: perigee_test BEFORE AFTER."), "{help:?}");
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let (_folder, path) = file_with("a.json", r#"{"port": 3, "cluster": "file", "lease": "5s"}"#);
    let variables = [("PERIGEE_TEST_PORT", "2"), ("OLD_CLUSTER", "env")];
    let settings = load(&[&path, "--port=1"], &variables).unwrap();
    assert_eq!(settings.integer::<u16>("port"), 1);
    assert_eq!(settings.text("cluster"), "env");
    assert_eq!(settings.integer::<u64>("lease"), 5000);
    assert_eq!(settings.integer::<u64>("client_ttl"), 10);
}

#[test]
fn flag_equal_to_its_default_still_beats_the_file() {
    let (_folder, path) = file_with("a.yaml", "port: 3\n");
    let settings = load(&[&path, "--port=50051"], &[]).unwrap();
    assert_eq!(settings.integer::<u16>("port"), 50051);
}

#[test]
fn own_variable_beats_the_older_ones() {
    let variables = [("OLDER_CLUSTER", "c"), ("OLD_CLUSTER", "b"), ("PERIGEE_TEST_CLUSTER", "a")];
    assert_eq!(load(&[], &variables).unwrap().text("cluster"), "a");
    assert_eq!(load(&[], &variables[..2]).unwrap().text("cluster"), "b");
}

#[test]
fn kubernetes_service_links_are_not_taken_for_settings() {
    let variables = [
        ("PERIGEE_TEST_PORT", "tcp://10.0.0.1:50051"),
        ("PERIGEE_TEST_SERVICE_HOST", "10.0.0.1"),
        ("PERIGEE_TEST_PORT_50051_TCP", "tcp://10.0.0.1:50051"),
    ];
    let settings = load(&[], &variables).unwrap();
    assert_eq!(settings.integer::<u16>("port"), 50051);
    assert_eq!(settings.warnings().len(), 1);
}

#[test]
fn unknown_variable_with_the_prefix_is_warned_about() {
    let settings = load(&[], &[("PERIGEE_TEST_CLUSTR", "x")]).unwrap();
    assert!(settings.warnings()[0].contains("PERIGEE_TEST_CLUSTER"), "{:?}", settings.warnings());
}

#[test]
fn file_faults_name_the_file_and_the_key() {
    for (name, text, part) in [
        ("a.json", "{", "refused"),
        ("a.json", "[1]", "one map"),
        ("a.json", r#"{"prot": 1}"#, "did you mean `port`?"),
        ("a.json", r#"{"port": {"a": 1}}"#, "`port` must hold one value"),
        ("a.yaml", "port:\n", "`port` has no value"),
        ("a.yaml", "port: [", "refused"),
        ("a.toml", "port=1", "name it .json"),
        ("a.json", r#"{"port": 70000}"#, "from 0 to 65535"),
        ("a.json", r#"{"config_path": "b.json"}"#, "Unknown setting `config_path` (file"),
        ("a.json", r#"{"port": 1, "port": 2}"#, "`port` is there twice"),
        ("a.yaml", "port: 1\nport: 2\n", "`port` is there twice"),
    ] {
        let (_folder, path) = file_with(name, text);
        let error = load(&[&path], &[]).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains("did you mean `config_path`"), "{error}");
    }
    let error = load(&["--config_path=/does/not/exist.json"], &[]).unwrap_err();
    assert!(matches!(error, FlagError::FileUnreadable { .. }));
}

#[test]
fn oversized_file_is_refused() {
    let (_folder, path) = file_with("a.yaml", &"#".repeat((1 << 20) + 1));
    assert!(matches!(load(&[&path], &[]), Err(FlagError::FileMalformed { .. })));
}

#[test]
fn features_not_built_give_one_warning_that_names_them() {
    let settings = load(&["--enable_warp", "--warp_factor=9"], &[]).unwrap();
    assert_eq!(settings.warnings().len(), 1);
    let warning = &settings.warnings()[0];
    assert!(warning.contains("enable_warp, warp_factor (warp drive)"), "{warning}");
}

#[test]
fn a_flag_set_to_its_default_gives_no_warning() {
    let settings = load(&["--enable_warp=false", "--old_name="], &[]).unwrap();
    assert_eq!(settings.warnings(), Vec::<String>::new());
}

#[test]
fn help_names_a_configuration_file_only_where_there_is_one() {
    let usage =
        |program: Program| match program.load(&["-h".to_owned()], &ProcessEnvironment::default()) {
            Ok(ProgramStart::Print(text)) => text.split_whitespace().collect::<Vec<_>>().join(" "),
            other => panic!("{other:?}"),
        };
    let without = Program { tables: &[], ..PROGRAM };
    assert!(usage(PROGRAM).contains("of the file given by --config_path."));
    assert!(!usage(without).contains("file"), "{}", usage(without));
}

#[test]
fn help_lists_every_flag_once_and_version_is_one_line() {
    let print = |argument: &str| match PROGRAM
        .load(&[argument.to_owned()], &ProcessEnvironment::default())
    {
        Ok(ProgramStart::Print(text)) => text,
        other => panic!("{other:?}"),
    };
    let arguments = ["--help", "-help", "--helpfull", "--helpshort", "--helppackage", "-h"];
    for argument in arguments {
        let text = print(argument);
        assert!(text.contains("    -help (") && text.contains("    -version ("));
        for flag in PROGRAM.flags() {
            let line = format!("    -{} (", flag.name);
            assert_eq!(text.matches(&line).count(), 1, "{line}");
        }
        assert!(text.lines().all(|line| line.len() <= 100));
    }
    assert_eq!(
        print("--version"),
        "perigee_test version 1.2.3 (compatible with Mooncake 0.3.13)\n"
    );
}

#[test]
fn log_switches_become_values() {
    let settings =
        load(&["-v=1", "--log_dir=logs", "--max_log_size=0", "--vmodule=a=2,b,c=x"], &[]).unwrap();
    let log = LogSettings::from_settings(&settings);
    assert_eq!(log.verbosity, 1);
    assert_eq!(log.directory, Some(PathBuf::from("logs")));
    assert_eq!(log.rotate_bytes, 1 << 20);
    assert_eq!(log.module_verbosity, [("a".to_owned(), 2)]);
    let stderr = load(&["--logtostderr", "--log_dir=logs"], &[]).unwrap();
    assert_eq!(LogSettings::from_settings(&stderr).directory, None);
}

#[test]
fn changed_settings_are_listed_for_the_log() {
    assert_eq!(load(&["--port=1", "--verify"], &[]).unwrap().changed(), ["port=1"]);
}

#[test]
fn files_variables_and_unknown_names_of_gflags_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flags");
    std::fs::write(&path, "--port=7\n--cluster=theirs\n").unwrap();
    let file = format!("--flagfile={}", path.display());
    let settings = load(&[&file, "--port=8"], &[]).unwrap();
    assert_eq!((settings.integer::<u16>("port"), settings.text("cluster")), (8, "theirs"));
    let settings = load(&["--port=8", &file], &[]).unwrap();
    assert_eq!(settings.integer::<u16>("port"), 7, "the last one wins");
    std::fs::write(&path, "--prot=7\n").unwrap();
    let message = load(&[&file], &[]).unwrap_err().to_string();
    let wanted = [path.display().to_string(), "`prot`".to_owned(), "`port`".to_owned()];
    assert!(wanted.iter().all(|part| message.contains(part)), "{message}");
    let settings = load(&["--fromenv=port"], &[("FLAGS_port", "9")]).unwrap();
    assert_eq!(settings.integer::<u16>("port"), 9);
    let message = load(&["--fromenv=port"], &[("FLAGS_port", "x")]).unwrap_err().to_string();
    assert!(message.contains("FLAGS_port"), "{message}");
    let settings = load(&["--undefok=new_flag,on", "--new-flag=1", "--noon", "--port=6"], &[]);
    assert_eq!(settings.unwrap().integer::<u16>("port"), 6);
    assert!(load(&["--undefok=new_flag", "--newer_flag=1"], &[]).is_err());
}

#[test]
fn flags_for_other_flags_stand_on_the_command_line_only() {
    let message = load(&[], &[("PERIGEE_TEST_FLAGFILE", "/f")]).unwrap_err().to_string();
    assert!(message.contains("PERIGEE_TEST_FLAGFILE"), "{message}");
    let (_folder, flag) = file_with("settings.json", r#"{"undefok": "x"}"#);
    let message = load(&[&flag], &[]).unwrap_err().to_string();
    assert!(message.contains("`undefok`") && message.contains("settings.json"), "{message}");
}

#[test]
fn help_of_gflags_is_given_for_a_word_or_refused_in_a_sentence() {
    let ask = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        match PROGRAM.load(&arguments, &ProcessEnvironment::of(&[])) {
            Ok(ProgramStart::Print(text)) => text,
            Ok(ProgramStart::Run(_)) => panic!("it started"),
            Err(error) => format!("refused: {error}"),
        }
    };
    for arguments in [&["--helpmatch=Warp"][..], &["-helpon", "warp"]] {
        let text = ask(arguments);
        assert!(text.contains("-warp_factor") && text.contains("-enable_warp"), "{text}");
        assert!(!text.contains("-port"), "{text}");
    }
    assert!(ask(&["--helpmatch=nothing-like-it"]).contains("No setting"));
    assert!(ask(&["--helpxml"]).starts_with("refused: --helpxml is not built; --help"));
    assert!(ask(&["--tab_completion_word=x"]).starts_with("refused: --tab_completion_word"));
}
