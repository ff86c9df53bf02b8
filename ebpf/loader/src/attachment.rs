//! Attachments to what comes and goes: interfaces, the highest control group, program files. Each
//! is a link of this process.

use crate::error::ProbeError;
use crate::mark::find_mark;
use aya::Ebpf;
use aya::programs::sock_ops::SockOpsLink;
use aya::programs::tc::{SchedClassifierLink, TcAttachType};
use aya::programs::uprobe::{UProbeLink, UProbeScope};
use aya::programs::{CgroupAttachMode, ProgramError, SchedClassifier, SockOps, UProbe};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An interface, as one network namespace knows it.
pub(crate) type Interface = (u32, String);

#[derive(Default)]
pub(crate) struct Attachments {
    interfaces: BTreeMap<Interface, [SchedClassifierLink; 2]>,
    top_group: Option<(PathBuf, SockOpsLink)>,
    /// By file, whatever its path: many processes run one program, and its batches must be counted
    /// once. `None` has no mark.
    marks: BTreeMap<FileIdentity, Option<UProbeLink>>,
}

/// Device and number of a file.
type FileIdentity = (u64, u64);

impl Attachments {
    /// Attaches to new interfaces and forgets those that are gone; returns what could not be
    /// attached.
    pub(crate) fn sync_interfaces(
        &mut self,
        ebpf: &mut Ebpf,
        wanted: &BTreeSet<Interface>,
    ) -> Vec<(String, ProbeError)> {
        self.interfaces.retain(|interface, _| wanted.contains(interface));
        let mut failed = Vec::new();
        for interface in wanted {
            if !self.interfaces.contains_key(interface) {
                match attach_interface(ebpf, &interface.1) {
                    Ok(links) => drop(self.interfaces.insert(interface.clone(), links)),
                    Err(error) => failed.push((interface.1.clone(), error)),
                }
            }
        }
        failed
    }

    /// Attaches to the highest control group, once.
    pub(crate) fn keep_top_group(&mut self, ebpf: &mut Ebpf, top: &Path) -> Result<(), ProbeError> {
        if self.top_group.as_ref().is_none_or(|(attached, _)| attached != top) {
            self.top_group = None;
            self.top_group = Some((top.to_owned(), attach_group(ebpf, top)?));
        }
        Ok(())
    }

    /// The same for program files that have the mark; files without one are looked at once.
    pub(crate) fn sync_marks(
        &mut self,
        ebpf: &mut Ebpf,
        wanted: &BTreeSet<PathBuf>,
    ) -> Vec<(String, ProbeError)> {
        let mut failed = Vec::new();
        let mut files = BTreeMap::new();
        for path in wanted {
            match identity(path) {
                Ok(file) => drop(files.insert(file, path)),
                Err(error) => failed.push((path.display().to_string(), error)),
            }
        }
        self.marks.retain(|file, _| files.contains_key(file));
        for (file, path) in files {
            let Entry::Vacant(place) = self.marks.entry(file) else {
                continue;
            };
            match attach_mark(ebpf, path) {
                Ok(link) => drop(place.insert(link)),
                Err(error) => failed.push((path.display().to_string(), error)),
            }
        }
        failed
    }

    /// How many interfaces and program files are watched.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.interfaces.len(), self.marks.values().flatten().count())
    }
}

fn identity(path: &PathBuf) -> Result<FileIdentity, ProbeError> {
    let facts = std::fs::metadata(path)
        .map_err(|error| ProbeError::File { path: path.display().to_string(), error })?;
    Ok((facts.dev(), facts.ino()))
}

/// Names the program in an error.
pub(crate) fn of(program: &'static str) -> impl Fn(ProgramError) -> ProbeError {
    move |error| ProbeError::Program { program, error: Box::new(error) }
}

/// A loaded program of a type.
macro_rules! program {
    ($ebpf:expr, $name:literal, $kind:ty) => {{
        let program = $ebpf.program_mut($name).ok_or(ProbeError::Absent($name))?;
        <&mut $kind>::try_from(program).map_err(of($name))?
    }};
}

fn attach_interface(ebpf: &mut Ebpf, name: &str) -> Result<[SchedClassifierLink; 2], ProbeError> {
    let ingress = program!(ebpf, "nic_ingress", SchedClassifier);
    let link = ingress.attach(name, TcAttachType::Ingress).map_err(of("nic_ingress"))?;
    let ingress = ingress.take_link(link).map_err(of("nic_ingress"))?;
    let egress = program!(ebpf, "nic_egress", SchedClassifier);
    let link = egress.attach(name, TcAttachType::Egress).map_err(of("nic_egress"))?;
    let egress = egress.take_link(link).map_err(of("nic_egress"))?;
    Ok([ingress, egress])
}

fn attach_group(ebpf: &mut Ebpf, path: &Path) -> Result<SockOpsLink, ProbeError> {
    let group = File::open(path)
        .map_err(|error| ProbeError::File { path: path.display().to_string(), error })?;
    let program = program!(ebpf, "tcp_round_trip", SockOps);
    let link = program.attach(group, CgroupAttachMode::Single).map_err(of("tcp_round_trip"))?;
    program.take_link(link).map_err(of("tcp_round_trip"))
}

fn attach_mark(ebpf: &mut Ebpf, file: &PathBuf) -> Result<Option<UProbeLink>, ProbeError> {
    let Some(site) = find_mark(file)? else {
        return Ok(None);
    };
    let program = program!(ebpf, "batch_done", UProbe);
    let link = program
        .attach(site.file_offset, file, UProbeScope::AllProcesses)
        .map_err(of("batch_done"))?;
    program.take_link(link).map(Some).map_err(of("batch_done"))
}
