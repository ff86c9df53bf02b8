//! Calls of async programs: they block no thread of the runtime, and one that is given up keeps its
//! memory until it has ended.

use crate::{cluster, open};
use perigee_client::{CacheMemory, LendError, ObjectError, ReplicateConfig};
use perigee_tests::cluster::Master;
use perigee_tests::limits::CALL_DEADLINE;
use std::sync::mpsc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const BYTES: usize = 64 << 10;

#[tokio::test(flavor = "current_thread")]
async fn a_call_leaves_the_only_thread_of_a_runtime_to_others() {
    let (begin, begun) = mpsc::channel::<()>();
    let store = tokio::task::spawn_blocking(cluster).await.unwrap();
    // It waits for what this thread does after it began.
    let call = store.2.start(move |store| {
        begun.recv_timeout(CALL_DEADLINE).expect("the runtime goes on");
        store.put("k", &[1; BYTES], &ReplicateConfig::default())
    });
    let other = async { begin.send(()).expect("the call waits") };
    let (put, ()) = tokio::join!(call, other);
    put.unwrap();
    assert_eq!(store.2.start(|store| store.get("k")).await.unwrap(), [1; BYTES]);
    tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
}

#[tokio::test]
async fn a_call_that_is_given_up_keeps_its_memory_until_it_has_ended() {
    let store = tokio::task::spawn_blocking(cluster).await.unwrap();
    let memory = CacheMemory::allocate(BYTES).unwrap();
    let mut slice = memory.lend(0..BYTES).unwrap();
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let call = store.2.start(move |store| {
        begin.send(()).expect("the test waits");
        ended.recv_timeout(CALL_DEADLINE).expect("the test ends it");
        store.get_slice("absent", &mut slice).map(|_| slice)
    });
    tokio::task::spawn_blocking(move || begun.recv_timeout(CALL_DEADLINE)).await.unwrap().unwrap();
    let late = timeout(Duration::from_millis(1), call).await;
    assert!(late.is_err(), "the call waits for this test");
    assert!(matches!(memory.lend(0..1), Err(LendError::Lent { .. })), "its call is under way");
    end.send(()).expect("the call still runs");
    let free = async {
        while memory.lend(0..BYTES).is_err() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(CALL_DEADLINE, free).await.expect("the call has ended and dropped its slice");
    tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
}

#[tokio::test]
async fn a_call_without_an_answer_ends_by_itself() {
    let (master, store) = tokio::task::spawn_blocking(|| {
        let master = Master::start(&[]);
        let store = open(&master);
        (master, store)
    })
    .await
    .unwrap();
    let memory = CacheMemory::allocate(BYTES).unwrap();
    let mut slice = memory.lend(0..BYTES).unwrap();
    let read = store.start(move |store| {
        drop(master);
        let bytes = store.get_slice("k", &mut slice);
        Ok::<_, ObjectError>((bytes?, slice))
    });
    let error = timeout(CALL_DEADLINE, read).await.expect("its deadlines are shorter").unwrap_err();
    assert!(error.is_worth_a_retry(), "{error}");
    assert!(memory.lend(0..BYTES).is_ok(), "the slice came back with the error");
    tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
}
