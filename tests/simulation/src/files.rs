//! Files of a simulated host. Invariant: an operation whose process has ended answers no caller.

use crate::disk::{DiskResult, DiskWork, SECTOR_BYTES};
use crate::environment::Operation;
use crate::network::HostId;
use crate::world::World;
use perigee_shard::{File, FileOptions, Files, Message, RingRegistration};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Longest that a call on a name takes.
const NAME_CALL_MAX: Duration = Duration::from_millis(1);
/// What a file that goes past the page cache is read and written in.
const BLOCK_BYTES: u64 = 8 * SECTOR_BYTES;

/// The files of a host, for one life of its process.
#[derive(Clone)]
pub struct SimulatedFiles {
    world: Rc<World>,
    host: HostId,
    life: u64,
}

/// An open file.
#[derive(Clone)]
pub struct SimulatedFile(Rc<OpenFile>);

struct OpenFile {
    world: Rc<World>,
    host: HostId,
    file: u64,
    /// Number of this open file.
    opened: u64,
    is_direct: bool,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.world.core().disk(self.host).unlock(self.file, self.opened);
    }
}

impl SimulatedFiles {
    pub(crate) fn new(world: Rc<World>, host: HostId, life: u64) -> Self {
        Self { world, host, life }
    }

    /// The time that a call on a name takes. Calls of an earlier life change nothing.
    async fn call<T>(&self, work: impl FnOnce(&mut crate::disk::Disk) -> T) -> io::Result<T> {
        let length = self.world.core().random.length(Duration::ZERO, NAME_CALL_MAX);
        self.world.sleep(length).await;
        let mut core = self.world.core();
        if core.hosts[self.host].life != self.life {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(work(core.disk(self.host)))
    }
}

impl Files for SimulatedFiles {
    type File = SimulatedFile;

    async fn open(&self, path: &Path, options: FileOptions) -> io::Result<SimulatedFile> {
        let opened = self.call(|disk| Ok((disk.open(path, options.create)?, disk.number())));
        let (file, opened) = opened.await?.map_err(|error: io::Error| error)?;
        let (world, host) = (self.world.clone(), self.host);
        let is_direct = options.direct;
        Ok(SimulatedFile(Rc::new(OpenFile { world, host, file, opened, is_direct })))
    }

    async fn create_folder(&self, path: &Path) -> io::Result<()> {
        let all = path.ancestors().map(Path::to_owned).collect::<Vec<PathBuf>>();
        self.call(|disk| disk.folders.extend(all)).await
    }

    async fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.call(|disk| disk.sync_names(path)).await
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.call(|disk| disk.list(path)).await?
    }

    async fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(|disk| disk.remove(path)).await?
    }

    async fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        self.call(|disk| disk.behaviour.capacity_bytes.saturating_sub(disk.used_bytes())).await
    }

    fn register(&self, _: Message) -> io::Result<Option<RingRegistration>> {
        Ok(None)
    }

    async fn takes_direct(&self, _: &Path) -> io::Result<bool> {
        self.call(|_| true).await
    }

    async fn lock_refusal(&self, _: &Path) -> io::Result<Option<String>> {
        Ok(None)
    }
}

impl SimulatedFile {
    async fn ask(&self, work: DiskWork) -> DiskResult {
        let OpenFile { world, host, file, is_direct, .. } = &*self.0;
        let memory = match &work {
            DiskWork::Read(message, offset) | DiskWork::Write(message, offset) => {
                let is_whole = [message.bytes() as u64, *offset]
                    .iter()
                    .all(|number| number.is_multiple_of(BLOCK_BYTES));
                world.check(is_whole || !is_direct, || {
                    "A direct operation on parts of blocks".into()
                });
                !message.keeps_its_memory()
            }
            DiskWork::Sync | DiskWork::Allocate(_) => false,
        };
        let what = work.name();
        let slot = world.core().begin_disk_task(*host, *file, work);
        Operation { world: world.clone(), slot, must_end: memory, what }.await
    }
}

impl File for SimulatedFile {
    async fn read_at(&self, message: Message, offset: u64) -> io::Result<usize> {
        self.ask(DiskWork::Read(message, offset)).await.0
    }

    async fn write_at(&self, message: Message, offset: u64) -> io::Result<()> {
        self.ask(DiskWork::Write(message, offset)).await.0.map(drop)
    }

    async fn sync(&self) -> io::Result<()> {
        self.ask(DiskWork::Sync).await.0.map(drop)
    }

    async fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.ask(DiskWork::Allocate(bytes)).await.0.map(drop)
    }

    async fn try_lock(&self) -> io::Result<bool> {
        let OpenFile { world, host, file, opened, .. } = &*self.0;
        Ok(world.core().disk(*host).lock(*file, *opened))
    }
}
