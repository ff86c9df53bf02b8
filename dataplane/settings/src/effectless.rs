//! Which variables are set without effect, and the lines about them. Invariant: a
//! process says each line once, and never a value, which may be a secret.

use crate::misspelt::{MisspeltVariable, misspelt};
use crate::mooncake::{MooncakeEffect, MooncakeVariable, mooncake_variables};
use crate::variables::Variables;
use std::sync::Once;

static SAID: Once = Once::new();

/// Variables that are set and have no effect, by group.
pub fn effectless(variables: &Variables<'_>) -> Vec<MooncakeVariable> {
    let without_effect = |row: &MooncakeVariable| {
        !matches!(row.effect, MooncakeEffect::Honoured(_)) && variables.text(row.name).is_some()
    };
    mooncake_variables().filter(without_effect).collect()
}

/// Says at the first call of a process what has no effect: a warning for each variable whose
/// feature is missing or whose name is misspelt, and one for all that are not needed, because
/// nothing is lost and nothing is to be done about them.
pub fn warn_once(variables: &Variables<'_>) {
    SAID.call_once(|| {
        say(&effectless(variables));
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for MisspeltVariable { written, meant } in misspelt(names) {
            tracing::warn!("{written} is set and nothing reads it: write {meant} if that is meant");
        }
    });
}

fn say(rows: &[MooncakeVariable]) {
    let mut not_needed = Vec::new();
    for row in rows {
        match row.effect {
            MooncakeEffect::NotBuilt(why) => {
                tracing::warn!("{} is set and has no effect; not built: {why}", row.name);
            }
            MooncakeEffect::NotNeeded(_) => not_needed.push(row.name),
            MooncakeEffect::Honoured(_) => {}
        }
    }
    if !not_needed.is_empty() {
        tracing::warn!(
            "Set and not needed, `perigee doctor --mooncake-env` says why: {}",
            not_needed.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn lines(rows: &[MooncakeVariable]) -> Vec<String> {
        let page = Page::default();
        let writer = page.clone();
        let subscriber =
            tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, || say(rows));
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_variable_without_effect_has_its_line_and_no_value() {
        let source = |_: &str| Some("secret".to_owned());
        let rows = effectless(&Variables::new(&source));
        let lines = lines(&rows);
        assert!(rows.len() > 200, "{}", rows.len());
        for row in &rows {
            let line = lines.iter().find(|line| line.contains(row.name)).expect(row.name);
            // Python's programs show warnings only, unless they are asked for more.
            assert!(line.contains(" WARN "), "{line}");
        }
        assert!(!lines.concat().contains("secret"));
        let loud = rows.iter().filter(|row| matches!(row.effect, MooncakeEffect::NotBuilt(_)));
        assert_eq!(lines.len(), loud.count() + 1);
    }

    #[test]
    fn variables_that_are_honoured_or_not_set_have_none() {
        let source = |name: &str| match name {
            "MC_TRANSFER_TIMEOUT" => Some("30".to_owned()),
            "MC_MAX_WR" => Some(String::new()),
            _ => None,
        };
        assert_eq!(effectless(&Variables::new(&source)), []);
        assert!(lines(&[]).is_empty());
    }
}
