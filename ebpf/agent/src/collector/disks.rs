//! Disks of our processes that keep objects, as the processes show them: level 0.
//! Invariant: what is shown is of processes that live; a disk that is opened again counts from 0.

use crate::histogram::Distribution;
use crate::host::FoundProcesses;
use crate::limits::DISKS_MAX;
use crate::snapshot::DiskSeries;
use perigee_activity::{DiskLatency, PageListing, PageReader};

/// All of them, by path and process.
pub(super) fn disks(pages: &PageListing, found: &FoundProcesses) -> Vec<DiskSeries> {
    let of_page = |page| read(page, found);
    let mut disks: Vec<DiskSeries> = pages.living.iter().flat_map(of_page).collect();
    disks.sort_by(|one, other| (&one.path, one.pid).cmp(&(&other.path, other.pid)));
    disks.truncate(DISKS_MAX);
    disks
}

fn read(page: &PageReader, found: &FoundProcesses) -> Vec<DiskSeries> {
    let disks = page.disks().unwrap_or_else(|error| {
        tracing::debug!(page = %page.path().display(), %error, "A page cannot be read");
        Vec::new()
    });
    let name = page.path().file_name().unwrap_or_default();
    let pid = found.pids.get(name).copied();
    let series = disks.into_iter().map(|disk| DiskSeries {
        pid: pid.unwrap_or(page.pid()),
        program: page.program().to_owned(),
        path: disk.path,
        state: disk.state,
        reason: disk.reason,
        retry_ms: disk.retry_ms,
        capacity_bytes: disk.capacity_bytes,
        used_bytes: disk.used_bytes,
        read_bytes: disk.read_bytes,
        written_bytes: disk.written_bytes,
        errors: disk.errors,
        reads: distribution(&disk.reads),
        writes: distribution(&disk.writes),
    });
    series.collect()
}

fn distribution(latency: &DiskLatency) -> Distribution {
    let count = latency.buckets.iter().fold(0, |sum: u64, more| sum.saturating_add(*more));
    Distribution::new(count, latency.sum_ns, &latency.buckets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_activity::{DiskPage, DiskReading, Page, PageDirectory};

    #[test]
    fn disks_of_all_living_processes_are_listed_by_path() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let mut places = ["/b", "/a"].map(|path| {
            let mut place = DiskPage::claim(page).unwrap();
            let mut disk = DiskReading { path: path.to_owned(), ..DiskReading::default() };
            disk.reads.buckets[4] = 3;
            place.show(&disk);
            place
        });
        let listing = || PageListing::read(&directory, |_| false);
        let read = || disks(&listing(), &FoundProcesses::default());
        let found = read();
        let paths: Vec<&str> = found.iter().map(|disk| disk.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/b"]);
        assert_eq!((found[0].pid, found[0].reads.count), (std::process::id(), 3));
        places[0].show(&DiskReading { path: "/c".to_owned(), ..DiskReading::default() });
        assert_eq!(read()[1].path, "/c");
        drop(places);
        assert!(read().is_empty());
    }
}
