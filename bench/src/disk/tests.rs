//! A run of the tool on a folder of this host.

use perigee_flags::ProcessEnvironment;

use super::settings::ENCRYPTED;
use crate::report::Report;

fn run(words: &[&str]) -> Result<Report, String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut text = String::new();
    let mut output = |part: &str| {
        text.push_str(part);
        Ok(())
    };
    let environment = ProcessEnvironment::of(&[]);
    super::TOOL.start(&words, &environment, &mut output).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
}

#[test]
fn rows_are_taken_and_the_folder_is_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("--path={}", folder.path().display());
    let words = ["--pool=64MiB", "--duration=200ms", "--rounds=2", "--fio=false", "--format=json"];
    let words = [&words[..], &["--encrypted"]].concat();
    let report = run(&[&[path.as_str()], &words[..]].concat()).unwrap();
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.operation.as_str(), row.bytes >> 10, row.depth))
        .collect();
    let reads = |kib| [1, 8, 32].map(|depth| ("read", kib, depth));
    let writes = |of, depth| [(of, 128, depth), (of, 1024, depth)];
    let appends = [writes("append", 8), writes("demote", 4)].concat();
    let gets = |kib| ["get", "get own"].map(|of| [(of, kib, 8), (of, kib, 64)]).concat();
    let gets = [gets(128), gets(1024)].concat();
    let plain = [&appends[..], &reads(128), &reads(1024)].concat();
    let name = |of| ENCRYPTED.iter().find(|(plain, _)| *plain == of).map(|(_, name)| *name);
    let encrypted = plain.iter().filter_map(|(of, kib, depth)| Some((name(*of)?, *kib, *depth)));
    let encrypted: Vec<_> = encrypted.collect();
    assert_eq!(rows, [&plain[..], &encrypted, &gets].concat());
    assert!(report.rows.iter().all(|row| row.corrupt == 0));
    assert!(report.rows.iter().all(|row| row.rate.average > 0.0));
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is left");
}

#[test]
fn loads_that_do_not_fit_are_refused_with_what_to_do() {
    for (size, depth, part) in [
        ("--size=4097", "--depth=1", "multiple of 4 KiB"),
        ("--size=64MiB", "--depth=8", "smaller --depth"),
        ("--size=60MiB", "--depth=1", "larger --pool"),
    ] {
        let error = run(&[size, depth, "--pool=64MiB"]).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}
