//! Attachments that come and go: interfaces, the highest control group, io_uring.
//! Each is a link of this process.

use crate::error::ProbeError;
use crate::feature::Feature;
use aya::Ebpf;
use aya::programs::sock_ops::SockOpsLink;
use aya::programs::tc::{SchedClassifierLink, TcAttachType};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, CgroupAttachMode, ProgramError, SchedClassifier, SockOps};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// An interface, as one network namespace knows it.
pub(crate) type Interface = (u32, String);

#[derive(Default)]
pub(crate) struct Attachments {
    interfaces: BTreeMap<Interface, [SchedClassifierLink; 2]>,
    top_group: Option<(PathBuf, SockOpsLink)>,
    urings: Vec<BtfTracePointLink>,
}

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

    /// Attaches the programs of io_uring, or takes them off.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn sync_urings(&mut self, ebpf: &mut Ebpf, is_on: bool) -> Result<(), ProbeError> {
        if !is_on {
            self.urings.clear();
        } else if self.urings.is_empty() {
            for name in Feature::Urings.programs() {
                let program = ebpf.program_mut(name).ok_or(ProbeError::Absent(name))?;
                let program = <&mut BtfTracePoint>::try_from(program).map_err(of(name))?;
                let link = program.attach().map_err(of(name))?;
                self.urings.push(program.take_link(link).map_err(of(name))?);
            }
        }
        Ok(())
    }

    /// How many interfaces are watched.
    pub(crate) fn interfaces(&self) -> usize {
        self.interfaces.len()
    }
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
