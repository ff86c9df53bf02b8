//! Memory that goes away after it was named: an error on every route, never a signal.

use crate::node::{engine, node, payload, place, read_one, write_all};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_transfer::{PeerError, RangeJob, ReadJob, Route, TransferError, WriteJob};
use std::num::NonZero;
use std::ptr::NonNull;

const BYTES: usize = 1 << 20;
const ROUTES: [Route; 3] = [Route::SameProcess, Route::SharedMemory, Route::Tcp];

/// Memory of a caller, whose rights change while it is in use.
struct CallersMemory(NonNull<u8>);

impl CallersMemory {
    fn new() -> Self {
        let length = NonZero::new(BYTES).unwrap();
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of its own, never taken away.
        let base = unsafe { mmap_anonymous(None, length, rights, MapFlags::MAP_PRIVATE).unwrap() };
        Self(base.cast())
    }

    /// Its last page gets these rights.
    fn protect_end(&self, rights: ProtFlags) {
        // SAFETY: the page belongs to the mapping.
        unsafe { mprotect(self.0.add(BYTES - 4096).cast(), 4096, rights).unwrap() };
    }

    fn range(&self) -> ByteRangeMut {
        ByteRangeMut { ptr: self.0.as_ptr(), len: BYTES }
    }
}

#[test]
fn memory_of_a_caller_that_loses_its_rights_is_an_error_and_the_next_call_goes_well() {
    for route in ROUTES {
        let node = node();
        let (engine, memory) = (engine(&node, route), CallersMemory::new());
        let place = place(&node, 0, BYTES, 7);
        let data = payload(1, BYTES);
        let write = || {
            let pieces = [memory.range().cast_const()];
            // SAFETY: the memory outlives the call; what is not there of it is what is tested.
            unsafe { engine.write(&[WriteJob { place: &place, pieces: &pieces }]) }.remove(0)
        };
        let local = || TransferError::Peer(PeerError::LocalMemory);
        memory.protect_end(ProtFlags::PROT_NONE);
        assert_eq!(write(), Err(local()), "{route:?}");
        memory.protect_end(ProtFlags::PROT_READ);
        write().unwrap();
        let checksum = write_all(&engine, std::slice::from_ref(&place), &[data.clone()])[0];
        let pieces = [memory.range()];
        let read = || {
            let job = ReadJob { place: &place, checksum, pieces: &pieces };
            // SAFETY: as above.
            unsafe { engine.read(&[job]) }.remove(0)
        };
        let read_range = || {
            let job = RangeJob { place: &place, checksum, source_offset: 0, target: pieces[0] };
            // SAFETY: as above.
            unsafe { engine.read_ranges(&[job]) }.remove(0)
        };
        for rights in [ProtFlags::PROT_READ, ProtFlags::PROT_NONE] {
            memory.protect_end(rights);
            assert_eq!(read(), Err(local()), "{route:?} {rights:?}");
            assert_eq!(read_range(), Err(local()), "{route:?} {rights:?}");
        }
        memory.protect_end(ProtFlags::PROT_READ | ProtFlags::PROT_WRITE);
        for call in [&read as &dyn Fn() -> Result<(), TransferError>, &read_range] {
            call().unwrap();
            // SAFETY: the memory is there, and nothing else uses it.
            let read = unsafe { std::slice::from_raw_parts(memory.0.as_ptr(), BYTES) };
            assert!(*read == data[..], "{route:?}");
        }
        assert!(read_one(&engine, &place, checksum).unwrap() == data);
        engine.close();
    }
}

#[test]
fn a_place_whose_memory_has_gone_is_an_error_of_the_place() {
    for route in ROUTES {
        let node = node();
        let engine = engine(&node, route);
        let whole = place(&node, 0, BYTES, 7);
        let data = [payload(1, BYTES)];
        let checksum = write_all(&engine, std::slice::from_ref(&whole), &data)[0];
        assert!(read_one(&engine, &whole, checksum).is_ok());
        let memory = node.table.get(node.address.id).unwrap();
        let end = NonNull::new(memory.base()).unwrap();
        // The owner's own view of a file that was cut; a guest of shared memory has another one.
        // SAFETY: the pages belong to the segment, and only the test uses them.
        let protect = |rights| unsafe { mprotect(end.add(BYTES / 2).cast(), 4096, rights) };
        protect(ProtFlags::PROT_NONE).unwrap();
        let pieces = [ByteRange::from(&data[0][..])];
        // SAFETY: the data outlives the call.
        let written = unsafe { engine.write(&[WriteJob { place: &whole, pieces: &pieces }]) };
        let read = read_one(&engine, &whole, checksum);
        match route {
            Route::SharedMemory => assert!(written[0].is_ok() && read.is_ok()),
            Route::SameProcess => {
                assert!(matches!(written[0], Err(TransferError::PlaceGone(_))), "{written:?}");
                assert!(matches!(read, Err(TransferError::Stale | TransferError::PlaceGone(_))));
            }
            _ => {
                assert!(written[0].as_ref().is_err_and(TransferError::is_place_fault));
                assert!(read.is_err_and(|error| error.is_place_fault()));
            }
        }
        protect(ProtFlags::PROT_READ | ProtFlags::PROT_WRITE).unwrap();
        let checksum = write_all(&engine, std::slice::from_ref(&whole), &data)[0];
        assert!(read_one(&engine, &whole, checksum).unwrap() == data[0], "{route:?}");
        engine.close();
    }
}
