//! Registering memory: whole buffers, in the background, and what cannot be pinned.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::resource::{Resource, setrlimit};
use perigee_memory::HostBuffer;
use perigee_verbs::registration::{RegistrationOptions, register};
use perigee_verbs::{
    CompletionStatus, Device, DmaBufRange, Fabric, RegionAccess, VerbsError, WorkOperation,
    WorkRequest,
};

use crate::end::{guest, host, pattern, request};

const UNPRIVILEGED: u32 = 65_534;
const CHILD: &str = "memory::what_a_user_without_locked_memory_sees";

#[test]
fn a_buffer_in_many_regions_is_written_across_their_borders() {
    let Some(host) = host() else { return };
    let (mut a, b) = host.joined();
    a.fill(pattern);
    let bytes: u64 = 1 << 20;
    let target = HostBuffer::allocate(bytes as usize).unwrap();
    let options = RegistrationOptions { region_bytes: 64 << 10, ..RegistrationOptions::default() };
    // SAFETY: dropped before the buffer.
    let whole = unsafe { register(b.device.as_ref(), target.base() as u64, bytes, &options) };
    let whole = whole.unwrap();
    assert_eq!(whole.regions().len(), 16);
    let (start, length) = (60_000, 200_000);
    let mut done = 0;
    for part in whole.parts(whole.address() + start, length).unwrap() {
        let pieces = [a.piece(done, part.bytes as usize)];
        let work = WorkRequest {
            remote_address: part.address,
            remote_key: part.region.remote_key(),
            ..request(1, WorkOperation::Write(&pieces), &b)
        };
        assert_eq!(a.run(work), CompletionStatus::Success);
        done += part.bytes as usize;
    }
    assert_eq!(done as u64, length);
    for offset in 0..done {
        // SAFETY: inside of the buffer.
        let byte = unsafe { target.base().add(start as usize + offset).read_volatile() };
        assert_eq!(byte, pattern(offset), "{offset}");
    }
}

#[test]
fn registration_goes_on_while_the_same_devices_serve() {
    let Some(host) = host() else { return };
    let (mut a, b) = host.joined();
    let bytes: u64 = 64 << 20;
    let buffer = HostBuffer::allocate(bytes as usize).unwrap();
    let devices = host.names.iter().map(|name| host.fabric.open(name).unwrap());
    let devices: Vec<_> = devices.collect();
    let options = RegistrationOptions::default();
    let address = buffer.base() as u64;
    let registered: Vec<_> = std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            let register = |device: &Arc<dyn Device>| {
                // SAFETY: the result is dropped before the buffer.
                unsafe { register(device.as_ref(), address, bytes, &options) }.unwrap()
            };
            devices.iter().map(register).collect()
        });
        assert_eq!(a.write(&b, 4096), CompletionStatus::Success);
        made.join().unwrap()
    });
    assert_eq!(registered.len(), host.names.len());
    assert!(registered.iter().all(|whole| whole.bytes() == bytes));
}

#[test]
fn pages_that_may_not_be_written_are_registered_for_reading_only() {
    let Some(host) = host() else { return };
    let end = host.end(0);
    let length = std::num::NonZeroUsize::new(4096).unwrap();
    // SAFETY: a new mapping at a place of the kernel's choice.
    let page = unsafe { mmap_anonymous(None, length, ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE) };
    let address = page.unwrap().as_ptr() as u64;
    // SAFETY: the page stays mapped to the end of the process.
    let refused = unsafe { end.device.register(address, 4096, RegionAccess::ALL) };
    let error = refused.unwrap_err();
    assert!(matches!(error, VerbsError::NotPinnable { .. }), "{error}");
    // SAFETY: as above.
    unsafe { end.device.register(address, 4096, RegionAccess::REMOTE_READ) }.unwrap();
    // SAFETY: refused, since nothing is mapped there.
    let unmapped = unsafe { end.device.register(4096, 4096, RegionAccess::ALL) }.unwrap_err();
    assert!(matches!(unmapped, VerbsError::NotPinnable { .. }), "{unmapped}");
    // SAFETY: refused, since it is empty.
    let empty = unsafe { end.device.register(address, 0, RegionAccess::ALL) }.unwrap_err();
    assert!(matches!(empty, VerbsError::BadRange { .. }), "{empty}");
}

#[test]
fn huge_pages_are_registered_with_borders_on_theirs() {
    const HUGE: u64 = 2 << 20;
    let Some(host) = guest() else { return };
    std::fs::write("/proc/sys/vm/nr_hugepages", "8").unwrap();
    let (mut a, b) = host.joined();
    a.fill(pattern);
    let length = std::num::NonZeroUsize::new(4 * HUGE as usize).unwrap();
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_HUGETLB;
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice.
    let pages = unsafe { mmap_anonymous(None, length, protection, flags) }.unwrap();
    let options = RegistrationOptions {
        region_bytes: 3 * HUGE / 2,
        page_bytes: HUGE,
        ..RegistrationOptions::default()
    };
    let address = pages.as_ptr() as u64;
    // SAFETY: the pages stay mapped to the end of the process.
    let whole = unsafe { register(b.device.as_ref(), address, 4 * HUGE, &options) }.unwrap();
    assert_eq!(whole.regions().len(), 4);
    let pieces = [a.piece(0, 4096)];
    let work = WorkRequest {
        remote_address: address + 2 * HUGE,
        remote_key: whole.regions()[2].remote_key(),
        ..request(1, WorkOperation::Write(&pieces), &b)
    };
    assert_eq!(a.run(work), CompletionStatus::Success);
    // SAFETY: inside of the mapping.
    let byte = unsafe { ((address + 2 * HUGE + 4095) as *const u8).read_volatile() };
    assert_eq!(byte, pattern(4095));
}

#[test]
fn a_dma_buf_that_the_driver_refuses_is_a_typed_error() {
    let Some(host) = host() else { return };
    let end = host.end(0);
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let range = DmaBufRange { offset_bytes: 0, bytes: 4096, address: 0x1000 };
    // SAFETY: refused, since an ordinary file is no dma-buf.
    let refused = unsafe { end.device.register_dmabuf(file.as_fd(), range, RegionAccess::ALL) };
    let error = refused.unwrap_err();
    if std::env::var_os("PERIGEE_VM").is_some() {
        assert!(!end.device.knows_dmabuf());
        assert!(matches!(error, VerbsError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn without_the_right_to_lock_memory_the_limit_and_the_remedy_are_named() {
    let Some(_host) = host() else { return };
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([CHILD, "--exact", "--ignored", "--nocapture"]).uid(UNPRIVILEGED);
    // SAFETY: one system call, which is safe between fork and exec.
    unsafe {
        child.pre_exec(|| {
            setrlimit(Resource::RLIMIT_MEMLOCK, 64 << 10, 64 << 10).map_err(Into::into)
        });
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("cannot pin 1 MiB: the limit of locked memory is 64 KiB"), "{text}");
}

#[test]
#[ignore = "run by another test, as another user"]
fn what_a_user_without_locked_memory_sees() {
    let Some(host) = host() else { return };
    let device = host.fabric.open(&host.names[0]).unwrap();
    let buffer = HostBuffer::allocate(1 << 20).unwrap();
    // SAFETY: dropped before the buffer.
    let refused = unsafe { device.register(buffer.base() as u64, 1 << 20, RegionAccess::ALL) };
    let error = refused.unwrap_err();
    assert!(matches!(error, VerbsError::LockedMemory { .. }), "{error}");
    println!("{error}");
    drop(Arc::clone(&device));
}
