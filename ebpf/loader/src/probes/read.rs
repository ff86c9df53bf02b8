//! Reading the maps.

use super::Probes;
use crate::error::ProbeError;
use crate::feature::Feature;
use crate::reading::{
    BlockReading, DropReading, NicReading, ProgramCost, TcpReading, has_slot, sum_blocks,
    sum_histograms, sum_nics, sum_tcp,
};
use crate::value::{
    BlockKey, BlockTotals, DROP_OTHER, DROP_REASONS_MAX, DurationHistogram, Loss, NicTotals,
    TaskTotals, TcpTotals, UringTotals,
};
use aya::Pod;
use aya::maps::{HashMap as KernelMap, Map, PerCpuArray, PerCpuHashMap, PerCpuValues};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

impl Probes {
    /// Packets of an interface.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn nic(&self, interface: u32) -> Result<Option<NicReading>, ProbeError> {
        if !has_slot(interface) {
            return Ok(None);
        }
        let totals = sum_nics(&self.array_slot::<NicTotals>("NICS", interface)?);
        Ok(Some(NicReading { interface, totals }))
    }

    /// TCP connections behind an interface; 0 for those of which the kernel did not say.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn tcp(&self, interface: u32) -> Result<Option<TcpReading>, ProbeError> {
        if !has_slot(interface) {
            return Ok(None);
        }
        let mut totals = sum_tcp(&self.array_slot::<TcpTotals>("TCP", interface)?);
        totals.round_trip.merge(&self.groups.taken_over(interface));
        Ok(Some(TcpReading { interface, totals }))
    }

    /// The shortest round trip behind an interface since the last call, in nanoseconds.
    ///
    /// # Errors
    /// The map cannot be read or set.
    pub fn take_shortest_round_trip(&mut self, interface: u32) -> Result<Option<u64>, ProbeError> {
        const MAP: &str = "SHORTEST";
        if !has_slot(interface) {
            return Ok(None);
        }
        let shortest = self.array_slot::<u64>(MAP, interface)?;
        let found = shortest.iter().copied().filter(|value| *value > 0).min();
        if found.is_some() {
            let map = self.ebpf.map_mut(MAP).ok_or(ProbeError::Absent(MAP))?;
            let mut map = PerCpuArray::<_, u64>::try_from(map).map_err(failed(MAP))?;
            let none = PerCpuValues::try_from(vec![0; shortest.len()]);
            let none = none.map_err(|error| ProbeError::File {
                path: "/sys/devices/system/cpu/possible".to_owned(),
                error,
            })?;
            map.set(interface, none, 0).map_err(failed(MAP))?;
        }
        Ok(found)
    }

    /// Packets dropped on an interface.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn nic_drops(&self, interface: u32) -> Result<u64, ProbeError> {
        if !has_slot(interface) {
            return Ok(0);
        }
        Ok(self.array_slot::<u64>("NIC_DROPS", interface)?.iter().sum())
    }

    /// Dropped packets of the host, by reason.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn drops(&self) -> Result<Vec<DropReading>, ProbeError> {
        let map = self.array::<u64>("DROPS")?;
        // Numbers that this kernel has no word for share one.
        let mut readings: BTreeMap<String, u64> = BTreeMap::new();
        for number in 0..DROP_REASONS_MAX {
            let counts = map.get(&number, 0).map_err(failed("DROPS"))?;
            let packets: u64 = counts.iter().sum();
            if packets > 0 {
                let name = self.drop_reasons.get(&number).map(String::as_str);
                let reason = drop_reason(number, name);
                *readings.entry(reason).or_default() += packets;
            }
        }
        let read = |(reason, packets)| DropReading { reason, packets };
        Ok(readings.into_iter().map(read).collect())
    }

    /// Requests of all block devices.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn blocks(&self) -> Result<Vec<BlockReading>, ProbeError> {
        let map = self.map("BLOCKS")?;
        let map = PerCpuHashMap::<_, BlockKey, BlockTotals>::try_from(map);
        let map = map.map_err(failed("BLOCKS"))?;
        let read = |entry: Result<(BlockKey, _), _>| {
            let (key, values): (_, PerCpuValues<BlockTotals>) = entry?;
            let totals = sum_blocks(&values);
            Ok(BlockReading { key, totals })
        };
        map.iter().map(read).collect::<Result<_, _>>().map_err(failed("BLOCKS"))
    }

    /// io_uring latency of a watched process.
    pub fn uring(&self, process: u32) -> Option<DurationHistogram> {
        let map = self.map("URINGS").ok()?;
        let map = PerCpuHashMap::<_, u32, UringTotals>::try_from(map).ok()?;
        let values = map.get(&process, 0).ok()?;
        Some(sum_histograms(values.iter().map(|value| &value.latency)))
    }

    /// Waits of a watched thread.
    pub fn task(&self, thread: u32) -> Option<TaskTotals> {
        let map = self.map("TASKS").ok()?;
        let map = KernelMap::<_, u32, TaskTotals>::try_from(map).ok()?;
        map.get(&thread, 0).ok()
    }

    /// What could not be counted, by reason.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn losses(&self) -> Result<Vec<(Loss, u64)>, ProbeError> {
        let map = self.array::<u64>("LOST")?;
        let read = |loss: Loss| {
            let counts = map.get(&(loss as u32), 0).map_err(failed("LOST"))?;
            Ok((loss, counts.iter().sum()))
        };
        Loss::ALL.into_iter().map(read).collect()
    }

    /// Runs and run time of every loaded program. Zero unless statistics are on.
    pub fn costs(&self) -> Vec<(Feature, ProgramCost)> {
        let of_feature =
            |feature: Feature| feature.programs().into_iter().map(move |name| (feature, name));
        let programs = Feature::ALL.into_iter().flat_map(of_feature);
        let cost = |(feature, program): (Feature, &'static str)| {
            let info = self.ebpf.program(program)?.info().ok()?;
            let cost = ProgramCost {
                program,
                runs: info.run_count(),
                run_ns: u64::try_from(info.run_time().as_nanos()).unwrap_or(u64::MAX),
            };
            Some((feature, cost))
        };
        programs.filter_map(cost).collect()
    }

    /// Lets the kernel measure programs until the value is dropped; costs about 30 ns per run.
    ///
    /// # Errors
    /// The process lacks CAP_SYS_ADMIN.
    pub fn measure_costs(&self) -> Result<OwnedFd, ProbeError> {
        let started = aya::sys::enable_stats(aya::sys::Stats::RunTime);
        started.map_err(|error| ProbeError::Program {
            program: "statistics",
            error: Box::new(error.into()),
        })
    }

    fn map(&self, name: &'static str) -> Result<&Map, ProbeError> {
        self.ebpf.map(name).ok_or(ProbeError::Absent(name))
    }

    fn array<T: Pod>(
        &self,
        name: &'static str,
    ) -> Result<PerCpuArray<&aya::maps::MapData, T>, ProbeError> {
        PerCpuArray::try_from(self.map(name)?).map_err(failed(name))
    }

    fn array_slot<T: Pod>(&self, name: &'static str, index: u32) -> Result<Box<[T]>, ProbeError> {
        let values = self.array::<T>(name)?.get(&index, 0).map_err(failed(name))?;
        Ok(values.iter().copied().collect())
    }
}

/// The kernel's word for a reason, in lower case.
fn drop_reason(number: u32, name: Option<&str>) -> String {
    if number == DROP_OTHER {
        return "other".to_owned();
    }
    let name = name.unwrap_or("SKB_DROP_REASON_UNKNOWN");
    let short = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
    short.strip_prefix("SKB_").unwrap_or(short).to_lowercase()
}

fn failed(map: &'static str) -> impl Fn(aya::maps::MapError) -> ProbeError {
    move |error| ProbeError::Map { map, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_kernels_words_and_the_rest_is_called_other() {
        let named = |number, name| drop_reason(number, Some(name));
        assert_eq!(named(3, "SKB_DROP_REASON_NO_SOCKET"), "no_socket");
        assert_eq!(named(0, "SKB_NOT_DROPPED_YET"), "not_dropped_yet");
        assert_eq!(drop_reason(400, None), "unknown");
        assert_eq!(drop_reason(DROP_OTHER, None), "other");
    }
}
