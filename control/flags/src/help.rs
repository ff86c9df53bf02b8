//! Help and version texts. Invariant: every flag of the table appears once.

use crate::flag::{ALLOW_UNBUILT, Flag, FlagSupport};
use crate::limits::HELP_COLUMNS;
use crate::program::{CONFIG_PATH, Program};
use crate::value::shortened;
use std::fmt::Write as _;

/// The version of Mooncake whose programs, flags, routes and Python calls ours are.
pub const MOONCAKE_VERSION: &str = "0.3.13";

/// What every program answers beside its flags.
const BUILT_IN: [(&str, &str); 3] = [
    ("help", "This list; also -h, -helpshort, -helpfull and -helppackage"),
    ("helpmatch", "The settings in whose lines a word occurs: -helpmatch=WORD; also -helpon"),
    ("version", "Name and version"),
];

pub(crate) fn help_text(program: &Program) -> String {
    let mut text = format!("{}: {}\n\n", program.name, program.summary);
    wrap_into(&mut text, 0, &usage(program));
    for (title, flags) in program.tables {
        let _ = write!(text, "\n  {title}:\n");
        for flag in *flags {
            wrap_into(&mut text, 4, &describe(flag));
        }
    }
    text.push_str("\n  Asked instead of starting:\n");
    for (name, meaning) in BUILT_IN {
        wrap_into(&mut text, 4, &format!("-{name} ({meaning})"));
    }
    text
}

/// Text of `--helpmatch`: the flags in whose lines a word occurs.
pub(crate) fn help_on(program: &Program, word: &str) -> String {
    let wanted = word.to_lowercase();
    let lines = program.flags().map(describe);
    let found = lines.filter(|line| line.to_lowercase().contains(&wanted));
    let mut text = String::new();
    found.for_each(|line| wrap_into(&mut text, 2, &line));
    if text.is_empty() {
        return format!("No setting of {} speaks of `{}`\n", program.name, shortened(word));
    }
    text
}

pub(crate) fn version_text(program: &Program) -> String {
    let (name, version) = (program.name, program.version);
    format!("{name} version {version} (compatible with Mooncake {MOONCAKE_VERSION})\n")
}

fn usage(program: &Program) -> String {
    let call = match program.words {
        [] => String::new(),
        words => format!("Usage: {} {}. ", program.name, words.join(" ")),
    };
    let call = format!(
        "{call}Settings are written --name=value or --name value (yes/no: --name, --noname)"
    );
    let variables = format!("as environment variables {}NAME", program.variable_prefix);
    if program.find(CONFIG_PATH).is_none() {
        return format!("{call}, or {variables}. A flag wins over the environment.");
    }
    format!(
        "{call}, {variables}, or as keys of the file given by --{CONFIG_PATH}. A flag wins over the \
         environment, the environment over the file."
    )
}

fn describe(flag: &Flag) -> String {
    let state = match flag.state {
        FlagSupport::Built => String::new(),
        FlagSupport::NotBuilt(feature) => format!(" [not built yet: {feature}]"),
        FlagSupport::Guarantee(feature) => {
            format!(" [not built yet: {feature}; refused without {}]", ALLOW_UNBUILT.name)
        }
        FlagSupport::Deprecated(note) => format!(" [deprecated: {note}]"),
        FlagSupport::Ignored(why) => format!(" [no effect: {why}]"),
    };
    let default = match flag.kind.label() {
        "string" => format!("\"{}\"", flag.default),
        _ => flag.default.to_owned(),
    };
    format!("-{} ({}{state}) type: {} default: {default}", flag.name, flag.help, flag.kind.label())
}

/// Appends `words`, wrapped; lines after the first are indented two more columns.
fn wrap_into(text: &mut String, indent: usize, words: &str) {
    let mut column = indent;
    text.extend(std::iter::repeat_n(' ', indent));
    for (index, word) in words.split_whitespace().enumerate() {
        let continued = indent + if indent == 0 { 0 } else { 2 };
        if index > 0 && column + 1 + word.len() > HELP_COLUMNS {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', continued));
            column = continued;
        } else if index > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text.push('\n');
}
