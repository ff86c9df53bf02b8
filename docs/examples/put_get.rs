//! Store and read objects: one with a copy, then a batch straight from and into memory.
//!
//! Usage: put_get MASTER_HOST:PORT
#![expect(clippy::print_stdout, reason = "an example says what it did")]

use perigee_client::{
    CacheMemory, ObjectFault, ObjectSource, ObjectStore, ObjectTarget, ReplicateConfig, StoreConfig,
};
use std::error::Error;

const BLOCK_BYTES: usize = 256 << 10;
const BLOCKS: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let master = std::env::args().nth(1).ok_or("usage: put_get MASTER_HOST:PORT")?;
    let store = ObjectStore::open(StoreConfig {
        // The name or address by which other hosts reach this process.
        local_hostname: "127.0.0.1".into(),
        master_server_address: master,
        ..StoreConfig::default()
    })?;
    let placement = ReplicateConfig::default();

    store.put("example/greeting", b"hello", &placement)?;
    assert_eq!(store.get("example/greeting")?, b"hello");
    let missing = store.get("example/unknown").map_err(|error| error.fault());
    assert_eq!(missing, Err(ObjectFault::NotFound));

    // Many blocks, without a copy in this process.
    let memory = CacheMemory::allocate(2 * BLOCKS * BLOCK_BYTES)?;
    let _registered = store.register(&memory)?;
    let keys: Vec<String> = (0..BLOCKS).map(|block| format!("example/block/{block}")).collect();
    let mut source = memory.lend(0..BLOCKS * BLOCK_BYTES)?;
    let mut target = memory.lend(BLOCKS * BLOCK_BYTES..2 * BLOCKS * BLOCK_BYTES)?;
    let source = source.bytes_mut().ok_or("allocated memory is of this host")?;
    let target = target.bytes_mut().ok_or("allocated memory is of this host")?;
    source.chunks_mut(BLOCK_BYTES).zip(1..).for_each(|(block, number)| block.fill(number));

    let blocks = keys.iter().zip(source.chunks(BLOCK_BYTES));
    let blocks: Vec<_> = blocks.map(|(key, block)| ObjectSource::new(key).bytes(block)).collect();
    store.put_batch(&blocks, &placement).into_iter().collect::<Result<Vec<_>, _>>()?;

    let rooms = keys.iter().zip(target.chunks_mut(BLOCK_BYTES));
    let mut rooms: Vec<_> = rooms.map(|(key, room)| ObjectTarget::new(key).bytes(room)).collect();
    let read = store.get_batch(&mut rooms).into_iter().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(read, [BLOCK_BYTES; BLOCKS]);
    assert_eq!(source, target);

    // A forced removal does not wait for read leases.
    let mut all: Vec<&str> = keys.iter().map(String::as_str).collect();
    all.push("example/greeting");
    store.remove_batch(&all, true).into_iter().collect::<Result<Vec<_>, _>>()?;
    println!("stored, read and compared {} objects", BLOCKS + 1);
    Ok(())
}
