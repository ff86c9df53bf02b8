//! The checks as a whole: their table, a sound host, a host without anything, and their choice.

mod cases;
mod document;
mod misconfiguration;
mod sample;

use super::*;
use sample::Sample;
use std::collections::BTreeSet;

fn all_checks() -> Vec<&'static Check> {
    CHECKS.iter().collect()
}

#[test]
fn table_is_sound() {
    assert_eq!(DOCTOR.check(), Vec::<String>::new());
    let names: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), CHECKS.len());
}

#[test]
fn on_a_sound_host_every_check_looks_and_finds_nothing() {
    let sample = Sample::sound();
    let host = sample.host();
    let report = examine(&host, &all_checks());
    let text = report.text(true);
    assert_eq!(report.findings().count(), 0, "{text}");
    let count = all_checks().len();
    let summary = format!("Checks {count}, failures 0, warnings 0, not applicable here 0\n");
    assert!(text.starts_with(&summary), "{text}");
    assert_eq!(report.worst(), None);
}

#[test]
fn what_a_disk_of_ours_has_filled_is_no_want_of_room() {
    let sample = Sample::sound();
    let full_of = |own_bytes: u64| {
        let mut host = sample.host();
        host.disks = vec![sample::disk(3, Err(disk::DiskFault::NoSpace))];
        host.disks[0].own_bytes = own_bytes;
        examine(&host, &all_checks()).findings().count()
    };
    assert_eq!((full_of(90 << 30), full_of(0)), (0, 1));
}

#[test]
fn an_empty_tree_is_examined_without_blame_for_what_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let tree = perigee_topology::fixture::bare_host(folder.path()).unwrap();
    let roots = tree.roots();
    let host = HostFacts {
        topology: Topology::discover(&roots),
        process: Process::read(&roots),
        roots,
        dev: folder.path().to_owned(),
        has_probes: true,
        clock: None,
        io_uring: None,
        no_reactor: None,
        links: None,
        packages: Vec::new(),
        segment_bytes: 0,
        cores: Vec::new(),
        disks: Vec::new(),
        peers: Vec::new(),
        cluster: ClusterSegments::Unknown,
    };
    let report = examine(&host, &all_checks());
    let found: Vec<&str> = report.findings().map(|(check, _)| check.name).collect();
    assert_eq!(found, ["btf"]);
}

#[test]
fn every_check_is_documented() {
    let text = include_str!("../../doctor.md");
    for Check { name, about, .. } in CHECKS {
        assert!(text.contains(&format!("| `{name}` | {about} |")), "{name}");
    }
}

#[test]
fn checks_are_chosen_by_name() {
    let choose = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match DOCTOR.load(&words, &ProcessEnvironment::of(&[])).unwrap() {
            ProgramStart::Run(settings) => {
                super::chosen(&settings).map_err(|error| error.to_string())
            }
            ProgramStart::Print(text) => panic!("{text}"),
        }
    };
    let names = |words: &[&str]| -> Vec<&str> {
        choose(words).unwrap().iter().map(|check| check.name).collect()
    };
    assert_eq!(names(&["--only=btf,memlock"]), ["memlock", "btf"]);
    assert_eq!(names(&["--skip=btf"]).len(), CHECKS.len() - 1);
    let none = choose(&["--only=clock", "--skip=clock"]);
    assert!(none.is_err_and(|text| text.contains("no check to run")));
    assert!(choose(&["--only=memlok"]).is_err_and(|text| text.contains("did you mean `memlock`?")));
}
