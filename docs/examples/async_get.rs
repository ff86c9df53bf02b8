//! Read many objects from an async program, each within a deadline.
//!
//! Usage: async_get MASTER_HOST:PORT
#![expect(clippy::print_stdout, reason = "an example says what it did")]

use perigee_client::{CacheMemory, ObjectError, ObjectStore, ReplicateConfig, StoreConfig};
use std::error::Error;
use std::time::Duration;
use tokio::time::timeout;

const PAGE_BYTES: usize = 64 << 10;
const PAGES: usize = 32;
const DEADLINE: Duration = Duration::from_secs(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let master = std::env::args().nth(1).ok_or("usage: async_get MASTER_HOST:PORT")?;
    let config = StoreConfig {
        local_hostname: "127.0.0.1".into(),
        master_server_address: master,
        ..StoreConfig::default()
    };
    // Opening waits for the master.
    let store = tokio::task::spawn_blocking(|| ObjectStore::open(config)).await??;
    let memory = CacheMemory::allocate(PAGES * PAGE_BYTES)?;

    let key = |page: usize| format!("example/page/{page}");
    for page in 0..PAGES {
        let bytes = vec![page as u8; PAGE_BYTES];
        let (key, placement) = (key(page), ReplicateConfig::default());
        store.start(move |store| store.put(&key, &bytes, &placement)).await?;
    }

    // Calls begin at once, and run side by side.
    let mut reads = Vec::new();
    for page in 0..PAGES {
        let mut slice = memory.lend(page * PAGE_BYTES..(page + 1) * PAGE_BYTES)?;
        let key = key(page);
        reads.push(store.start(move |store| {
            let bytes = store.get_slice(&key, &mut slice)?;
            Ok::<_, ObjectError>((bytes, slice))
        }));
    }
    for (page, read) in reads.into_iter().enumerate() {
        let (bytes, slice) = timeout(DEADLINE, read).await??;
        let read = slice.bytes().ok_or("allocated memory is of this host")?;
        assert!(bytes == PAGE_BYTES && read.iter().all(|byte| *byte == page as u8));
    }

    // A call that is given up keeps its part of the memory until it has ended.
    let mut slice = memory.lend(0..PAGE_BYTES)?;
    drop(store.start(move |store| store.get_slice("example/page/0", &mut slice).map(|_| slice)));
    let is_free = async {
        while memory.lend(0..PAGE_BYTES).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(DEADLINE, is_free).await?;
    let removed = store.start(|store| store.remove_matching("^example/page/", true)).await?;
    println!("read {PAGES} objects and removed {removed}");
    Ok(())
}
