//! The loop of a shard on io_uring: glommio's, whose first task steps our driver.

use super::ExecutorStart;
use super::error::ExecutorError;
use crate::limits::{GLOMMIO_MEMORY_BYTES, GLOMMIO_RING_ENTRIES};
use crate::tasks::TaskExecutor;
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement};
use perigee_reactor::Backend;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::time::Duration;

/// When glommio's loop takes the tasks' turn away from them. It must not: if its timer has run out
/// before the first task has run, because the thread lost its core for that long, it parks as if
/// there were no task, and nothing ends that. For the same reason there are no latency queues. Our
/// driver never ends its turn, and does what the loop would do.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

pub(super) fn serve(start: ExecutorStart) {
    let cpu = start.options.cpu;
    let placement = cpu.map_or(Placement::Unbound, Placement::Fixed);
    let builder = LocalExecutorBuilder::new(placement)
        .name(&start.options.name)
        .preempt_timer(NEVER)
        .io_memory(GLOMMIO_MEMORY_BYTES)
        .ring_depth(GLOMMIO_RING_ENTRIES);
    let executor = match make(builder) {
        Ok(executor) => executor,
        Err(error) => {
            let _ = start.ready.send(Err(error));
            return;
        }
    };
    executor.run(async move {
        let Some(mut driver) = start.driver(Backend::IoUring, TaskExecutor::Glommio) else {
            return;
        };
        loop {
            if driver.step() > 0 {
                glommio::executor().yield_task_queue_now().await;
            }
        }
    });
}

thread_local! {
    static MAKES: Cell<bool> = const { Cell::new(false) };
}

/// Makes an executor. glommio panics where it gets no ring for its probe, which happens when
/// another process of this user locks memory between our probe and this one; that is an error like
/// any other here, so nothing is printed.
fn make(builder: LocalExecutorBuilder) -> Result<LocalExecutor, ExecutorError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !MAKES.get() {
                usual(panic);
            }
        }));
    });
    MAKES.set(true);
    let made = catch_unwind(AssertUnwindSafe(|| builder.make()));
    MAKES.set(false);
    match made {
        Ok(made) => made.map_err(|error| ExecutorError::Glommio(error.to_string())),
        Err(_) => Err(ExecutorError::Glommio("no ring for glommio's probe".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Environment, Shard, ShardOptions};
    use perigee_reactor::{Backend, choice};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn glommio_never_gets_the_chance_to_park_a_shard_that_has_work() {
        if choice().unwrap().backend != Backend::IoUring {
            println!("SKIP: shards do not run on glommio here");
            return;
        }
        let (send, receive) = channel();
        let shard = Shard::start(ShardOptions::named("test-turn"), move |environment| async move {
            let begun = environment.now();
            // Thrice the time after which glommio's own loop would take its turn.
            while environment.now() - begun < Duration::from_millis(300) {
                environment.sleep(Duration::from_millis(1)).await;
            }
            // It is counted when the loop takes over from the tasks.
            let _ = send.send(glommio::executor().executor_stats().total_runtime());
        });
        let out_of_turn = receive.recv_timeout(LONG).unwrap();
        assert_eq!(out_of_turn, Duration::ZERO);
        shard.unwrap().join(LONG).unwrap();
    }
}
