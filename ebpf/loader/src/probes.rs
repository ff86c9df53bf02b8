//! The probes of this process: what is on, what it watches, what it has counted.

mod read;

use crate::attachment::{Attachments, Interface, of};
use crate::btf::{KernelTypes, MissingMember};
use crate::capability::{Capability, held_capabilities};
use crate::error::ProbeError;
use crate::feature::{Feature, FeatureState};
use crate::groups::Groups;
use crate::object;
use aya::maps::{HashMap as KernelMap, PerCpuHashMap, PerCpuValues};
use aya::programs::{BtfTracePoint, Program};
use aya::{Btf, Ebpf, EbpfLoader};
use perigee_probe_types::TaskTotals;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Loaded probes. Dropping them detaches everything.
pub struct Probes {
    ebpf: Ebpf,
    states: BTreeMap<Feature, FeatureState>,
    attachments: Attachments,
    groups: Groups,
    drop_reasons: HashMap<u32, String>,
    threads: BTreeSet<u32>,
    processes: BTreeSet<u32>,
}

impl Probes {
    /// Loads what can be loaded, `unused` features excepted. [`Probes::states`] tells what works.
    ///
    /// # Errors
    /// Nothing works: the build has no probes, the kernel does not describe itself, or maps are not
    /// allowed.
    pub fn load(unused: &BTreeMap<Feature, FeatureState>) -> Result<Self, ProbeError> {
        if !object::is_built() {
            return Err(ProbeError::NotBuilt);
        }
        let types = KernelTypes::of_running_kernel()?;
        let (offsets, missing) = types.offsets();
        // The kernel keeps it in 32 bits.
        let own_network = std::fs::metadata("/proc/self/ns/net");
        let own_network = own_network.map_or(0, |space| space.ino() as u32);
        let btf = Btf::from_sys_fs().map_err(aya::EbpfError::from)?;
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&btf)).override_global("OWN_NETWORK", &own_network, true);
        for (global, offset) in &offsets {
            loader.override_global(global, offset, false);
        }
        let ebpf = loader.load(object::bytes())?;
        let mut probes = Self {
            ebpf,
            states: BTreeMap::new(),
            attachments: Attachments::default(),
            groups: Groups::default(),
            drop_reasons: types.enumerators("skb_drop_reason"),
            threads: BTreeSet::new(),
            processes: BTreeSet::new(),
        };
        let held = held_capabilities();
        for feature in Feature::ALL {
            let lacks = missing.iter().find(|lack| lack.features.contains(&feature));
            let state = match unused.get(&feature) {
                Some(state) => state.clone(),
                None => probes.start(feature, &btf, &held, lacks),
            };
            probes.states.insert(feature, state);
        }
        Ok(probes)
    }

    /// What works, and why the rest does not.
    pub fn states(&self) -> &BTreeMap<Feature, FeatureState> {
        &self.states
    }

    /// Whether a feature works.
    pub fn works(&self, feature: Feature) -> bool {
        self.states.get(&feature).is_some_and(FeatureState::works)
    }

    /// How many interfaces are watched.
    pub fn interfaces_watched(&self) -> usize {
        self.attachments.interfaces()
    }

    fn start(
        &mut self,
        feature: Feature,
        btf: &Btf,
        held: &[Capability],
        lacks: Option<&MissingMember>,
    ) -> FeatureState {
        if let Some(lacking) = feature.lacking(held) {
            return lacking;
        }
        let started = match lacks {
            // An offset that is not set would have it read something else.
            Some(lacks) => Err(ProbeError::NoMember(lacks.member.clone())),
            None => self.try_start(feature, btf),
        };
        match started {
            Ok(()) => FeatureState::On,
            Err(error) => {
                tracing::warn!(feature = feature.label(), %error, "A probe stays off");
                FeatureState::Off { reason: error.to_string(), remedy: error.remedy().to_owned() }
            }
        }
    }

    fn try_start(&mut self, feature: Feature, btf: &Btf) -> Result<(), ProbeError> {
        for (name, tracepoint) in feature.tracepoints() {
            let program = self.ebpf.program_mut(name).ok_or(ProbeError::Absent(name))?;
            let program = <&mut BtfTracePoint>::try_from(program).map_err(of(name))?;
            program.load(tracepoint, btf).map_err(of(name))?;
            if feature != Feature::Urings {
                program.attach().map_err(of(name))?;
            }
        }
        if feature == Feature::Urings {
            self.attachments.sync_urings(&mut self.ebpf, true)?;
        }
        if feature.tracepoints().is_empty() {
            for name in feature.programs() {
                let program = self.ebpf.program_mut(name).ok_or(ProbeError::Absent(name))?;
                load(program).map_err(of(name))?;
            }
        }
        Ok(())
    }

    /// Watches these interfaces (number, name) and no others; returns what could not be attached.
    pub fn watch_interfaces(
        &mut self,
        interfaces: &BTreeSet<Interface>,
    ) -> Vec<(String, ProbeError)> {
        if !self.works(Feature::Nics) {
            return Vec::new();
        }
        self.attachments.sync_interfaces(&mut self.ebpf, interfaces)
    }

    /// Watches the connections of these control groups, by the kernel's numbers, which lie below
    /// the folder `top` of cgroup2. A group that is new among them counts with what it did lately.
    ///
    /// # Errors
    /// The folder cannot be attached to, or a map cannot be changed.
    pub fn watch_groups(&mut self, top: &Path, groups: &BTreeSet<u64>) -> Result<(), ProbeError> {
        if !self.works(Feature::RoundTrips) {
            return Ok(());
        }
        self.attachments.keep_top_group(&mut self.ebpf, top)?;
        self.groups.sync(&mut self.ebpf, groups)
    }

    /// Watches these threads and no others.
    ///
    /// # Errors
    /// The map cannot be changed.
    pub fn watch_threads(&mut self, threads: &BTreeSet<u32>) -> Result<(), ProbeError> {
        if !self.works(Feature::Tasks) {
            return Ok(());
        }
        let failed = |error| ProbeError::Map { map: "TASKS", error };
        let map = self.ebpf.map_mut("TASKS").ok_or(ProbeError::Absent("TASKS"))?;
        let mut map = KernelMap::<_, u32, TaskTotals>::try_from(map).map_err(failed)?;
        for gone in self.threads.difference(threads) {
            let _ = map.remove(gone);
        }
        self.threads.retain(|thread| threads.contains(thread));
        for new in threads {
            // Those that are watched already keep what they have, also when the map has no room for
            // the rest.
            if !self.threads.contains(new) {
                map.insert(new, TaskTotals::default(), 0).map_err(failed)?;
                self.threads.insert(*new);
            }
        }
        Ok(())
    }

    /// Watches the io_uring requests of these processes and no others.
    ///
    /// # Errors
    /// The map cannot be changed.
    pub fn watch_processes(&mut self, processes: &BTreeSet<u32>) -> Result<(), ProbeError> {
        if !self.works(Feature::Urings) {
            return Ok(());
        }
        let failed = |error| ProbeError::Map { map: "URINGS", error };
        let cpus = aya::util::nr_cpus().map_err(|(_, error)| ProbeError::File {
            path: "/sys/devices/system/cpu/possible".to_owned(),
            error,
        })?;
        let map = self.ebpf.map_mut("URINGS").ok_or(ProbeError::Absent("URINGS"))?;
        let mut map = PerCpuHashMap::<_, u32, _>::try_from(map).map_err(failed)?;
        for gone in self.processes.difference(processes) {
            let _ = map.remove(gone);
        }
        self.processes.retain(|process| processes.contains(process));
        for new in processes {
            if self.processes.contains(new) {
                continue;
            }
            let empty = vec![perigee_probe_types::UringTotals::default(); cpus];
            let empty = PerCpuValues::try_from(empty).map_err(|error| ProbeError::File {
                path: "/sys/devices/system/cpu/possible".to_owned(),
                error,
            })?;
            map.insert(new, empty, 0).map_err(failed)?;
            self.processes.insert(*new);
        }
        Ok(())
    }

    /// Watches io_uring, or lets go of it: what sees each request costs a small one some percent,
    /// so it is for a part of the time. Requests that are under way at the end are not counted.
    ///
    /// # Errors
    /// The kernel refuses, or the map cannot be changed.
    pub fn sample_urings(&mut self, is_on: bool) -> Result<(), ProbeError> {
        const MAP: &str = "URING_STARTS";
        if !self.works(Feature::Urings) {
            return Ok(());
        }
        self.attachments.sync_urings(&mut self.ebpf, is_on)?;
        if !is_on {
            // The kernel uses the place of a request again: its beginning must not be another's.
            let failed = |error| ProbeError::Map { map: MAP, error };
            let map = self.ebpf.map_mut(MAP).ok_or(ProbeError::Absent(MAP))?;
            let mut map = KernelMap::<_, u64, [u64; 2]>::try_from(map).map_err(failed)?;
            let begun: Vec<u64> = map.keys().filter_map(Result::ok).collect();
            for request in begun {
                let _ = map.remove(&request);
            }
        }
        Ok(())
    }
}

fn load(program: &mut Program) -> Result<(), aya::programs::ProgramError> {
    match program {
        Program::SchedClassifier(program) => program.load(),
        Program::SockOps(program) => program.load(),
        _ => Err(aya::programs::ProgramError::UnexpectedProgramType),
    }
}
