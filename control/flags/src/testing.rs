//! For tests of programs: is any setting accepted in silence? Invariant: a setting that is given
//! has an effect on the configuration, a line at the start, or is refused by name.

use crate::error::FlagError;
use crate::flag::{Bounds, Flag, ValueKind};
use crate::program::Program;
use std::fs;
use std::path::Path;

/// What a start was configured with.
pub struct Configured {
    /// The configuration in words, without its warnings.
    pub shown: String,
    /// What is said at the start.
    pub warnings: Vec<String>,
}

/// Flags of a program that can be given without any effect, line or refusal. `hints` has arguments
/// for those that need another value than any, or another flag beside them: the flag first.
pub fn silent_flags(
    program: &Program,
    hints: &[&[&str]],
    load: impl Fn(&[String]) -> Result<Configured, FlagError>,
) -> Vec<&'static str> {
    let is_silent = |flag: &&'static Flag| {
        let prefix = format!("--{}=", flag.name);
        let hint = hints.iter().find(|hint| hint.first().is_some_and(|it| it.starts_with(&prefix)));
        let given: Vec<String> = match hint {
            Some(hint) => hint.iter().map(|it| (*it).to_owned()).collect(),
            None => vec![format!("{prefix}{}", other_value(flag))],
        };
        let without = load(&given[1..]).map(|configured| configured.shown);
        match (load(&given), without) {
            // A refusal says which setting it is about; other tests hold that.
            (Err(_), _) | (Ok(_), Err(_)) => false,
            (Ok(with), Ok(without)) => {
                let is_named = with.warnings.iter().any(|line| line.contains(flag.name));
                !is_named && with.shown == without
            }
        }
    };
    // What stands for other flags has their effects.
    let is_own = |flag: &&'static Flag| !crate::gflags::NAMES.contains(&flag.name);
    program.flags().filter(is_own).filter(is_silent).map(|flag| flag.name).collect()
}

/// A value that the table takes and that is not the default.
fn other_value(flag: &Flag) -> String {
    match (flag.kind, flag.bounds) {
        (ValueKind::Bool, _) => (flag.default != "true").to_string(),
        (_, Bounds::OneOf(words)) => {
            words.iter().find(|word| **word != flag.default).unwrap_or(&"").to_string()
        }
        (_, Bounds::Number { min, max }) => {
            let middle = f64::midpoint(min, max);
            let usual = flag.default.parse::<f64>() == Ok(middle);
            if usual { min } else { middle }.to_string()
        }
        (ValueKind::Text, _) => "x".to_owned(),
        (_, Bounds::Integer { min, max }) => {
            let wanted = 2.clamp(min, max);
            if flag.default == wanted.to_string() { wanted + 1 } else { wanted }.to_string()
        }
        _ => if flag.default == "2" { "3" } else { "2" }.to_owned(),
    }
}

/// Public fields of the structures in `definition` that neither it nor any file below `folder`
/// reads, but for those in folders and files called `config`.
///
/// # Panics
/// A file cannot be read.
pub fn unread_fields(definition: &str, folder: &Path) -> Vec<String> {
    let code = code_below(folder) + definition;
    let fields = definition.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("    pub ")?.split_once(": ")?;
        Some(name.to_owned()).filter(|name| !name.contains(' '))
    });
    fields.filter(|name| !is_read(&code, name)).collect()
}

fn is_read(code: &str, field: &str) -> bool {
    let dotted = format!(".{field}");
    code.match_indices(&dotted).any(|(at, _)| {
        let next = code[at + dotted.len()..].bytes().next();
        !next.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn code_below(folder: &Path) -> String {
    let mut code = String::new();
    for entry in fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        if path.file_stem().is_some_and(|stem| stem == "config") {
            continue;
        }
        if path.is_dir() {
            code += &code_below(&path);
        } else {
            code += &fs::read_to_string(&path).expect("the file can be read");
        }
    }
    code
}
