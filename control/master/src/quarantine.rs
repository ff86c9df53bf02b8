//! Space that must not be reused yet, because a client may still read or write it. Invariant: a
//! quarantined extent is allocated in its share until it is released here.

use std::collections::{BTreeMap, BTreeSet};

use perigee_allocator::Extent;

use crate::put_name::PutName;

/// What keeps the bytes of an object from being used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadHold {
    pub(crate) end_ms: u64,
    /// Readers that have not given it back; the largest number if that is not known.
    pub(crate) readers: u16,
    /// Number of the lease, as in its name.
    pub(crate) term: u8,
}

/// An extent of a share that waits for its release.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quarantined {
    pub(crate) segment: u32,
    pub(crate) extent: Extent,
    /// The discarded put that it belonged to, if any.
    pub(crate) put: Option<PutName>,
    /// Its readers, if they all give their leases back.
    pub(crate) readers: Option<Readers>,
    /// The object of that put, if it was discarded because one that began later has published its
    /// bytes.
    pub(crate) superseded: Option<u32>,
}

/// The replicas of one put that wait for the same readers.
#[derive(Debug)]
struct QuarantinedPut {
    readers: u16,
    /// Number of the lease that they hold.
    term: u8,
    quarantined: Vec<(u64, u64)>,
}

/// Who reads a quarantined extent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Readers {
    /// Generation of the replica.
    pub(crate) generation: u64,
    /// Generation of the first replica that was dropped with it.
    pub(crate) version: u64,
    pub(crate) count: u16,
    /// Number of the lease that they hold.
    pub(crate) term: u8,
}

/// All quarantined extents in order of their release times.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    by_release: BTreeMap<(u64, u64), Quarantined>,
    /// Extents of discarded puts: the put, then their key in `by_release`.
    by_put: BTreeSet<(PutName, (u64, u64))>,
    bytes_of_segment: BTreeMap<u32, u64>,
    /// What readers name when they give leases back: the version of each quarantined generation...
    version_of: BTreeMap<u64, u64>,
    /// ... and the readers of each version, with the keys in `by_release` of its extents.
    versions: BTreeMap<u64, QuarantinedPut>,
    /// Extents that wait for readers, by segment.
    leased_of_segment: BTreeMap<u32, u64>,
    sequence: u64,
    bytes: u64,
    staging_bytes: u64,
}

impl Quarantine {
    pub(crate) fn hold(&mut self, release_ms: u64, quarantined: Quarantined) {
        debug_assert!(quarantined.extent.bytes > 0, "nothing is quarantined");
        debug_assert!(
            quarantined.put.is_none() || quarantined.readers.is_none(),
            "an unfinished put has no readers"
        );
        self.sequence += 1;
        let key = (release_ms, self.sequence);
        self.by_release.insert(key, quarantined);
        self.bytes += quarantined.extent.bytes;
        *self.bytes_of_segment.entry(quarantined.segment).or_default() += quarantined.extent.bytes;
        if quarantined.put.is_none() {
            *self.leased_of_segment.entry(quarantined.segment).or_default() += 1;
        }
        if let Some(put) = quarantined.put {
            self.by_put.insert((put, key));
            self.staging_bytes += quarantined.extent.bytes;
        }
        if let Some(readers) = quarantined.readers {
            debug_assert!(readers.count > 0, "it has a reader");
            self.version_of.insert(readers.generation, readers.version);
            let version = self.versions.entry(readers.version).or_insert(QuarantinedPut {
                readers: readers.count,
                term: readers.term,
                quarantined: Vec::new(),
            });
            debug_assert_eq!(version.readers, readers.count, "one version, one count");
            version.quarantined.push(key);
        }
    }

    /// Removes one reader of a quarantined version; returns the extents that have no reader left.
    pub(crate) fn give_back(&mut self, generation: u64, term: u8) -> Vec<Quarantined> {
        let Some(version) = self.version_of.get(&generation) else {
            return Vec::new();
        };
        let version = self.versions.get_mut(version);
        let Some(version) = version.filter(|version| version.term == term) else {
            return Vec::new();
        };
        debug_assert!(version.readers > 0, "the last reader freed it");
        version.readers -= 1;
        if version.readers > 0 {
            return Vec::new();
        }
        let keys = version.quarantined.clone();
        keys.into_iter().filter_map(|key| self.remove(key)).collect()
    }

    /// Takes one extent whose time has come.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<Quarantined> {
        let (&key, _) = self.by_release.first_key_value()?;
        if key.0 > now_ms {
            return None;
        }
        self.remove(key)
    }

    /// Takes one extent of a discarded put, before its time.
    pub(crate) fn pop_of_put(&mut self, put: PutName) -> Option<Quarantined> {
        let &(found, key) = self.by_put.range((put, (0, 0))..).next()?;
        if found != put {
            return None;
        }
        self.remove(key)
    }

    /// Whether space of a discarded put is quarantined.
    pub(crate) fn has_put(&self, put: PutName) -> bool {
        let mut extents = self.by_put.range((put, (0, 0))..);
        extents.next().is_some_and(|(found, _)| *found == put)
    }

    fn remove(&mut self, key: (u64, u64)) -> Option<Quarantined> {
        let quarantined = self.by_release.remove(&key)?;
        self.bytes -= quarantined.extent.bytes;
        if let Some(put) = quarantined.put {
            self.by_put.remove(&(put, key));
            self.staging_bytes -= quarantined.extent.bytes;
        }
        if let Some(readers) = quarantined.readers {
            self.forget_readers(readers, key);
        }
        if quarantined.put.is_none()
            && let Some(extents) = self.leased_of_segment.get_mut(&quarantined.segment)
        {
            *extents -= 1;
            if *extents == 0 {
                self.leased_of_segment.remove(&quarantined.segment);
            }
        }
        if let Some(bytes) = self.bytes_of_segment.get_mut(&quarantined.segment) {
            *bytes -= quarantined.extent.bytes;
            if *bytes == 0 {
                self.bytes_of_segment.remove(&quarantined.segment);
            }
        }
        Some(quarantined)
    }

    fn forget_readers(&mut self, readers: Readers, key: (u64, u64)) {
        self.version_of.remove(&readers.generation);
        if let Some(version) = self.versions.get_mut(&readers.version) {
            version.quarantined.retain(|quarantined| *quarantined != key);
            if version.quarantined.is_empty() {
                self.versions.remove(&readers.version);
            }
        }
    }

    /// Parked bytes of one segment.
    pub(crate) fn bytes_of(&self, segment: u32) -> u64 {
        self.bytes_of_segment.get(&segment).copied().unwrap_or_default()
    }

    /// Extents of one segment that wait for the end of readers' leases.
    pub(crate) fn leased_of(&self, segment: u32) -> u64 {
        self.leased_of_segment.get(&segment).copied().unwrap_or_default()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn staging_bytes(&self) -> u64 {
        self.staging_bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Quarantined> {
        self.by_release.values()
    }

    /// Panics unless all the ways to a quarantined extent agree.
    pub(crate) fn check(&self) {
        let (mut bytes, mut staging_bytes) = (0, 0);
        let mut bytes_of: BTreeMap<u32, u64> = BTreeMap::new();
        let mut leased_of: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut puts, mut read) = (0, 0);
        for (key, quarantined) in &self.by_release {
            bytes += quarantined.extent.bytes;
            *bytes_of.entry(quarantined.segment).or_default() += quarantined.extent.bytes;
            match quarantined.put {
                None => *leased_of.entry(quarantined.segment).or_default() += 1,
                Some(put) => {
                    assert!(self.by_put.contains(&(put, *key)), "{put:?} finds it");
                    staging_bytes += quarantined.extent.bytes;
                    puts += 1;
                }
            }
            if let Some(readers) = quarantined.readers {
                let version = self.version_of.get(&readers.generation);
                assert_eq!(version, Some(&readers.version));
                let version = &self.versions[&readers.version];
                assert!(version.quarantined.contains(key) && version.readers > 0);
                read += 1;
            }
        }
        assert_eq!((self.bytes, self.staging_bytes), (bytes, staging_bytes));
        assert_eq!(self.bytes_of_segment, bytes_of);
        assert_eq!(self.leased_of_segment, leased_of);
        assert_eq!(self.by_put.len(), puts, "no put names what is not quarantined");
        assert_eq!(self.version_of.len(), read, "one generation per extent");
        let waiting = self.versions.values().map(|version| version.quarantined.len());
        assert_eq!(waiting.sum::<usize>(), read, "no version waits for nothing");
    }
}
