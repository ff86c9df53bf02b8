//! Records of what became of extents, for the owners of their segments: noted as objects appear,
//! change and go, until the service has taken them.
//! Invariant: the records of a segment, replayed in order behind those of what lay there when it
//! was followed first, name exactly its complete replicas.

mod places;
mod removals;

use perigee_schemas::record::Record;

use crate::limits::OUTBOX_BYTES_MAX;

/// Records that wait, by segment. Nothing is noted of segments that no owner follows.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    by_segment: Vec<Option<Box<WaitingRecords>>>,
    /// Segments with waiting records.
    touched: Vec<u32>,
    /// Number of the last record.
    sequence: u64,
}

#[derive(Debug, Default)]
struct WaitingRecords {
    records: Vec<u8>,
    /// There were too many of them: who follows has to begin again.
    is_overrun: bool,
}

impl Outbox {
    /// No owner follows anything; numbers of records are larger than this one.
    pub(crate) fn new(sequence: u64) -> Self {
        Self { sequence, ..Self::default() }
    }

    /// From now on records of a segment are noted.
    pub(crate) fn follow(&mut self, segment: u32) {
        let slot = segment as usize;
        if self.by_segment.len() <= slot {
            self.by_segment.resize_with(slot + 1, || None);
        }
        self.touched.retain(|touched| *touched != segment);
        self.by_segment[slot] = Some(Box::default());
    }

    /// No owner follows a segment any more.
    pub(crate) fn forget(&mut self, segment: u32) {
        if let Some(waiting) = self.by_segment.get_mut(segment as usize) {
            *waiting = None;
            self.touched.retain(|touched| *touched != segment);
        }
    }

    pub(crate) fn is_followed(&self, segment: u32) -> bool {
        self.by_segment.get(segment as usize).is_some_and(Option::is_some)
    }

    /// Numbers of records are larger than this one from now on.
    pub(crate) fn raise(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Notes a record of a segment that is followed; its sequence is given here.
    pub(crate) fn note(&mut self, segment: u32, record: &Record<'_>) {
        let waiting = self.by_segment.get_mut(segment as usize).and_then(Option::as_mut);
        let Some(waiting) = waiting.filter(|waiting| !waiting.is_overrun) else {
            return;
        };
        if waiting.records.is_empty() {
            self.touched.push(segment);
        }
        self.sequence += 1;
        Record { sequence: self.sequence, ..*record }.encode(&mut waiting.records);
        if waiting.records.len() > OUTBOX_BYTES_MAX {
            **waiting = WaitingRecords { records: Vec::new(), is_overrun: true };
        }
    }

    /// Takes a segment with waiting records, and those; `None` for them if there were too many.
    pub(crate) fn take(&mut self) -> Option<(u32, Option<Vec<u8>>)> {
        let segment = self.touched.pop()?;
        let waiting = self.by_segment.get_mut(segment as usize)?.as_mut()?;
        let records = std::mem::take(&mut waiting.records);
        Some((segment, (!waiting.is_overrun).then_some(records)))
    }

    /// Panics unless exactly the segments with waiting records can be taken.
    pub(crate) fn check(&self) {
        for (segment, waiting) in (0..).zip(&self.by_segment) {
            let waits = waiting.as_ref().is_some_and(|it| !it.records.is_empty() || it.is_overrun);
            let listed = self.touched.iter().filter(|touched| **touched == segment).count();
            let was_said = waiting.as_ref().is_some_and(|it| it.is_overrun) && listed == 0;
            assert!(listed == usize::from(waits) || was_said, "{segment}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_schemas::Identity;
    use perigee_schemas::record::RecordOp;

    fn record(key: &[u8]) -> Record<'_> {
        Record {
            op: RecordOp::Commit,
            flags: 0,
            checksum: 1,
            sequence: 0,
            generation: 1,
            offset: 0,
            payload_bytes: 1,
            client: Identity(1),
            key,
            group: b"",
            part: None,
        }
    }

    #[test]
    fn records_wait_for_who_follows_and_have_growing_numbers() {
        let mut outbox = Outbox::default();
        outbox.note(3, &record(b"unheard"));
        assert!(!outbox.is_followed(3) && outbox.take().is_none());
        outbox.follow(3);
        outbox.raise(1 << 40);
        outbox.note(3, &record(b"a"));
        outbox.note(3, &record(b"b"));
        outbox.check();
        let (segment, records) = outbox.take().unwrap();
        let records = records.unwrap();
        let first = Record::decode(&records).unwrap();
        let second = Record::decode(&records[first.encoded_bytes()..]).unwrap();
        assert_eq!((segment, first.key, second.key), (3, &b"a"[..], &b"b"[..]));
        assert_eq!((first.sequence, second.sequence), ((1 << 40) + 1, (1 << 40) + 2));
        assert!(outbox.take().is_none());
        outbox.note(3, &record(b"c"));
        outbox.forget(3);
        assert!(outbox.take().is_none());
        outbox.check();
    }

    #[test]
    fn too_many_records_are_dropped_and_said() {
        let mut outbox = Outbox::default();
        outbox.follow(0);
        let key = vec![b'k'; 8192];
        (0..OUTBOX_BYTES_MAX / 8192 + 2).for_each(|_| outbox.note(0, &record(&key)));
        outbox.check();
        assert_eq!(outbox.take(), Some((0, None)));
        outbox.note(0, &record(&key));
        outbox.check();
        assert_eq!(outbox.take(), None, "said once");
        outbox.follow(0);
        outbox.note(0, &record(&key));
        assert!(outbox.take().is_some_and(|(_, records)| records.is_some()));
    }
}
