//! What can go wrong with a probe.

use crate::capability::held_capabilities;
use crate::feature::{Feature, FeatureState};
use aya::EbpfError;
use aya::programs::ProgramError;
use std::collections::BTreeMap;
use std::io;

/// Why probes could not be loaded, attached or read.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// This build has none.
    #[error("This build has no eBPF probes")]
    NotBuilt,
    /// The kernel does not describe itself.
    #[error("Cannot read /sys/kernel/btf/vmlinux: {0}")]
    KernelTypes(io::Error),
    /// The kernel's description is damaged or of another format.
    #[error("The kernel's type information cannot be read: {0}")]
    Malformed(&'static str),
    /// A kernel without something a probe needs.
    #[error("This kernel has no {0}")]
    NoMember(String),
    /// The object or its maps.
    #[error("Cannot load the probes: {}", chain(.0))]
    Object(#[from] EbpfError),
    /// One program.
    #[error("Cannot load or attach {program}: {}", chain(error))]
    Program {
        /// Its name.
        program: &'static str,
        /// What the kernel said.
        error: Box<ProgramError>,
    },
    /// A map.
    #[error("Cannot use the map {map}: {error}")]
    Map {
        /// Its name.
        map: &'static str,
        /// What the kernel said.
        error: aya::maps::MapError,
    },
    /// Something the object should hold.
    #[error("The probes have no {0}; the build is inconsistent")]
    Absent(&'static str),
    /// A file.
    #[error("Cannot open {path}: {error}")]
    File {
        /// Which.
        path: String,
        /// What the system said.
        error: io::Error,
    },
}

impl ProbeError {
    /// What each feature is when no probe could be loaded for this reason: off, with what it lacks
    /// if that is the cause.
    pub fn states(&self) -> BTreeMap<Feature, FeatureState> {
        let held = held_capabilities();
        let off = FeatureState::Off { reason: self.to_string(), remedy: self.remedy().to_owned() };
        let is_of_kernel =
            matches!(self, Self::Object(_) | Self::Program { .. } | Self::Map { .. });
        let state = |feature: Feature| {
            let lacking = feature.lacking(&held).filter(|_| is_of_kernel);
            (feature, lacking.unwrap_or_else(|| off.clone()))
        };
        Feature::ALL.map(state).into()
    }

    /// What changes it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::NotBuilt => {
                "install a wheel or program built without PERIGEE_WITHOUT_PROBES=1, by `make wheel` or `make build` on Debian 12"
            }
            Self::KernelTypes(_) => {
                "run a kernel with CONFIG_DEBUG_INFO_BTF=y; in a container mount the host's /sys"
            }
            Self::NoMember(_) => {
                "run kernel 6.6 or newer, as distributions build them (CONFIG_SCHEDSTATS=y)"
            }
            _ => "run kernel 6.6 or newer with BTF; the log of `perigee agent -v=1` says more",
        }
    }
}

/// The message with its causes: the outer one often only names the system call.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = without_verifier_log(&error.to_string());
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = without_verifier_log(&inner.to_string());
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

/// A message without the steps of the kernel's verifier behind it: thousands of lines on old
/// kernels.
fn without_verifier_log(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let end = line.find(" Verifier output:").unwrap_or(line.len());
    line[..end].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_a_refused_program_has_no_verifier_log() {
        let message = "the BPF_PROG_LOAD syscall returned Invalid argument (os error 22). Verifier output: 0: r1\n1: r2";
        assert_eq!(
            without_verifier_log(message),
            "the BPF_PROG_LOAD syscall returned Invalid argument (os error 22)"
        );
        assert_eq!(without_verifier_log("one\ntwo"), "one");
    }
}
