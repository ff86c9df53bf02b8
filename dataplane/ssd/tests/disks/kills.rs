//! A process that is killed while it appends, again and again: what it had announced is there, what
//! it had made void is not, and every byte is right.

use crate::host::{Host, LONG, MIB, is_read, list_from};
use perigee_schemas::disk_address::DiskAddress;
use perigee_ssd::VoidCopy;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// In the environment of the process that is killed: the path of its disk, and its first
/// generation.
const PATH: &str = "PERIGEE_TEST_DISK";
const FIRST: &str = "PERIGEE_TEST_FIRST";
/// Whether its disk is encrypted.
const ENCRYPTED: &str = "PERIGEE_TEST_ENCRYPTED";
/// Small, so that segments are sealed and used again.
const CAPACITY: u64 = 96 * MIB;
const KILLS: u64 = 15;

#[test]
fn a_process_that_is_killed_while_it_appends_loses_nothing_that_was_announced() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(folder.path(), false, KILLS);
}

#[test]
fn nor_does_one_whose_disk_is_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(folder.path(), true, KILLS);
}

/// Not a test of its own: the process that is killed.
#[test]
fn the_process_that_is_killed() {
    if let Ok(path) = std::env::var(PATH) {
        let first = std::env::var(FIRST).unwrap().parse().unwrap();
        append(&host(std::env::var(ENCRYPTED).is_ok()), Path::new(&path), first);
    }
}

/// What the killed processes said.
#[derive(Default)]
struct Said {
    announced: BTreeMap<u64, (u32, DiskAddress)>,
    asked_to_bury: BTreeSet<u64>,
    buried: BTreeSet<u64>,
}

impl Said {
    fn hear(&mut self, line: &str) {
        let words: Vec<u64> = line.split(' ').skip(1).flat_map(str::parse).collect();
        match (line.split(' ').next(), &words[..]) {
            (Some("wrote"), [generation, bytes, address, _end]) => {
                let address = DiskAddress::unpack(*address);
                self.announced.insert(*generation, (*bytes as u32, address));
            }
            (Some("bury"), [generation, _end]) => drop(self.asked_to_bury.insert(*generation)),
            (Some("buried"), [generation, _end]) => drop(self.buried.insert(*generation)),
            // A line that was cut off, or one of the test's program.
            _ => {}
        }
    }
}

fn host(is_encrypted: bool) -> Host {
    if is_encrypted { Host::with_key(9) } else { Host::new() }
}

pub(crate) fn kill_again_and_again(path: &Path, is_encrypted: bool, kills: u64) {
    let mut said = Said::default();
    let mut generation = 1;
    for round in 0..kills {
        let mut child = start(path, is_encrypted, generation);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // More of them in some rounds than in others: the kill meets every step.
        for line in lines.by_ref().take(3 + (round * 37 % 90) as usize) {
            said.hear(&line.unwrap());
        }
        child.kill().unwrap();
        lines.for_each(|line| said.hear(&line.unwrap_or_default()));
        child.wait().unwrap();
        generation = compare(&host(is_encrypted), path, &said).max(generation) + 1_000_000;
    }
    assert!(said.announced.len() as u64 > kills * 5, "{} were announced", said.announced.len());
    assert!(!said.buried.is_empty());
}

fn start(path: &Path, is_encrypted: bool, generation: u64) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "kills::the_process_that_is_killed", "--nocapture"]);
    child.env(PATH, path).env(FIRST, generation.to_string());
    child.envs(is_encrypted.then_some((ENCRYPTED, "1")));
    child.stdout(Stdio::piped()).spawn().unwrap()
}

/// Opens the disk and compares it with what was said of it; the newest generation that it has.
fn compare(host: &Host, path: &Path, said: &Said) -> u64 {
    let opened = host.open(path, CAPACITY);
    let found: BTreeMap<u64, DiskAddress> =
        opened.survivors.iter().map(|it| (it.generation, it.address)).collect();
    let mut missing = 0;
    for (generation, (bytes, address)) in &said.announced {
        let is_gone = said.asked_to_bury.contains(generation);
        if is_gone || address.sequence < opened.spec.oldest {
            continue;
        }
        if found.get(generation) != Some(address) {
            missing += 1;
            eprintln!("generation {generation}, {bytes} bytes, {address:?} is missing");
        } else {
            assert!(is_read(&opened.disk, *address, *bytes, *generation), "{generation}");
        }
    }
    assert_eq!(missing, 0, "of what was announced");
    let back: Vec<_> = said.buried.iter().filter(|it| found.contains_key(it)).collect();
    assert!(back.is_empty(), "{back:?} came back");
    let mut listed: Vec<u64> =
        list_from(&opened.disk, None).into_iter().map(|(_, generation)| generation).collect();
    listed.sort_unstable();
    assert!(listed.iter().eq(found.keys()), "it lists what it has found");
    opened.disk.close().wait(LONG).unwrap();
    found.keys().copied().max().unwrap_or(0)
}

/// Writes and buries until the process is killed, and says so.
fn append(host: &Host, path: &Path, first: u64) {
    let disk = host.open(path, CAPACITY).disk;
    let mut generation = first;
    let mut out = std::io::stdout();
    loop {
        let sizes = (0..8).map(|index| match (generation + index) % 4 {
            0 => 100 + index as u32,
            1 => 5000,
            2 => 70_000,
            _ => 900_000,
        });
        let objects: Vec<_> = sizes
            .zip(0..)
            .map(|(bytes, index): (u32, u64)| {
                let generation = generation + index;
                (bytes, host.outgoing(generation.into(), generation, bytes, index * MIB))
            })
            .collect();
        let outgoing = objects.iter().map(|(_, outgoing)| outgoing.clone()).collect();
        for (address, (bytes, outgoing)) in host.write(&disk, outgoing).iter().zip(&objects) {
            let generation = outgoing.object.generation;
            // The last word tells a whole line from one that was cut off.
            writeln!(out, "wrote {generation} {bytes} {} 0", address.pack()).unwrap();
        }
        if generation.is_multiple_of(3) {
            writeln!(out, "bury {generation} 0").unwrap();
            let copy = VoidCopy { hash: generation.into(), generation };
            disk.bury(vec![copy]).wait(LONG).unwrap().unwrap();
            writeln!(out, "buried {generation} 0").unwrap();
        }
        generation += 8;
    }
}
